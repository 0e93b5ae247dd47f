package node_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A server that has lost a script gets all commands behind it once more. A waiter may have come meanwhile, so that a release
// that has run asks for more keys. Its first reply counts.
func TestRedisReleaseThatAsksForKeysWhenRepeated(t *testing.T) {
	var asked []string
	n := open(t, newFront(t, fake(func(args []string) (string, bool) {
		inspects := args[3] == "b"
		asked = append(asked, args[0]+" "+args[3])
		switch {
		case inspects && args[0] == "EVALSHA":
			return "-NOSCRIPT No matching script.\r\n", true
		case inspects:
			return "*1\r\n:0\r\n", true
		case len(asked) == 2:
			return ":1\r\n", true
		case len(asked) == 4:
			return "*1\r\n$4\r\nKEYS\r\n", true
		default:
			return ":0\r\n", true
		}
	})).addr())
	replies := do(n, inspect("b"), release("o1", "a"))
	for _, r := range replies {
		require.NoError(t, r.Err)
	}
	assert.Equal(t, wire.Released, replies[1].Outcome, strings.Join(asked, ", "))
}
