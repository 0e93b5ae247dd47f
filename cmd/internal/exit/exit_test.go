package exit

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock"
)

func TestCodesAndMessages(t *testing.T) {
	held := &quorumlock.HeldError{Name: "k", Owner: "o"}
	few := &quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Need: 3, Total: 5}
	for name, c := range map[string]struct {
		err     error
		code    int
		message string
	}{
		"nothing":      {nil, OK, ""},
		"held":         {held, Held, `"k" is held by o for another 0s unless renewed`},
		"no quorum":    {few, NoQuorum, `acquire "k": no quorum: 0 of 5 nodes agreed, 3 needed`},
		"both":         {errors.Join(few, held), Held, "*"},
		"lost":         {&quorumlock.LostError{}, Lost, "*"},
		"wrapped":      {fmt.Errorf("after a while: %w", held), Held, "*"},
		"silent":       {Silent(77), 77, ""},
		"own, joined":  {errors.Join(few, Silent(77)), 77, ""},
		"with a text":  {Errorf(77, "x %d", 1), 77, "x 1"},
		"invalid":      {&quorumlock.InvalidError{}, Failure, "*"},
		"closed":       {quorumlock.ErrClosed, Failure, "*"},
		"usage":        {&Usage{Command: "quorumlock run", Err: errors.New("x")}, Failure, "x\nTry 'quorumlock run --help'."},
		"anything":     {errors.New("x"), Failure, "x"},
		"by a signal":  {Silent(OfSignal(os.Interrupt)), 130, ""},
		"odd a signal": {Silent(OfSignal(nil)), Failure, ""},
	} {
		assert.Equal(t, c.code, Code(c.err), name)
		if c.message != "*" {
			assert.Equal(t, c.message, Message(c.err), name)
		}
	}
	assert.Equal(t, "exit code 3", Silent(3).Error())
}
