// Package memory makes in-memory nodes that run the scripts of Redis nodes, through the same commands and the same
// decoding. So a test in virtual time plays what servers run.
//
// It is a package of its own, since it brings an interpreter of Lua, which a service does not need.
package memory

import (
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/redislua"
	"github.com/quorumlock/quorumlock/node"
)

// New makes an empty in-memory node with its time on the given clock; nil is [clock.System]. The ends of its keys are
// times of the wall clock, in whole milliseconds, as on a server.
func New(name string, c clock.Clock) *node.Memory {
	return node.NewMemoryOn(name, c, func(h node.Host) node.Engine { return &engine{redislua.New(h)} })
}

// engine turns the replies of package redislua into those of rueidis.
type engine struct{ server *redislua.Server }

// Do implements [node.Engine].
func (e *engine) Do(args ...string) rueidis.RedisMessage { return message(e.server.Do(args...)) }

// Save implements [node.Engine].
func (e *engine) Save() (restore func()) {
	saved := e.server.Snapshot()
	return func() { e.server.Restore(saved) }
}

func message(v redislua.Value) rueidis.RedisMessage {
	switch v.Kind {
	case redislua.Integer:
		return mock.RedisInt64(v.Int)
	case redislua.Bulk:
		return mock.RedisBlobString(v.Text)
	case redislua.Status:
		return mock.RedisString(v.Text)
	case redislua.Error:
		return mock.RedisError(v.Text)
	case redislua.Array:
		items := make([]rueidis.RedisMessage, len(v.Items))
		for i, item := range v.Items {
			items[i] = message(item)
		}
		return mock.RedisArray(items...)
	default:
		return mock.RedisNil()
	}
}
