package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

type examiner struct {
	*Node
	peer *watch.Peer
	// recovery is how long programs wait for a node that lost its memory.
	recovery time.Duration
	// lost is why the server is no longer asked.
	lost error
}

// reasonOf returns a node's error without the node's name, which the report prints beside it.
func reasonOf(err error) error {
	var e *node.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Err == nil:
		return e.Reason
	default:
		return fmt.Errorf("%w: %w", e.Reason, e.Err)
	}
}

// isDenied reports whether the server knows the user, and denies a command.
func isDenied(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

// isReply reports whether an error is a server's answer.
func isReply(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// ask runs one command. A server that failed to answer is not asked again: each command would wait for the timeout.
func (e *examiner) ask(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	if e.lost != nil {
		return rueidis.RedisMessage{}, e.lost
	}
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == absentKey {
			args[i] = e.peer.InSlot(arg)
		}
	}
	answer, err := e.peer.Ask(ctx, args)[0].ToMessage()
	if err != nil && !isReply(err) && !rueidis.IsRedisNil(err) {
		e.lost = err
	}
	return answer, err
}

// run is ask without the answer.
func (e *examiner) run(ctx context.Context, args ...string) error {
	_, err := e.ask(ctx, args...)
	return err
}

func (e *examiner) time(ctx context.Context) (time.Time, error) {
	answer, err := e.ask(ctx, "TIME")
	if err != nil {
		return time.Time{}, err
	}
	return watch.ParseTime(answer)
}

// absentKey is a key that does not exist, inbox an inbox without messages.
const (
	absentKey = "quorumlock:doctor"
	inbox     = "quorumlock:inbox:doctor"
)

// errPlain is for an address with rediss:// and a server that speaks plain text there.
var errPlain = errors.New("the address demands TLS, but the server does not speak TLS at this port")

// errSentinel is for the address of a Sentinel, instead of a server that it watches.
var errSentinel = errors.New("this is a Sentinel, not a node")
