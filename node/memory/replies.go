package memory

import (
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/mock"

	"github.com/quorumlock/quorumlock/internal/redislua"
)

// command runs a command, and returns its reply as one of rueidis. Requires m.mu, except in New.
func (m *Node) command(args ...string) rueidis.RedisMessage { return message(m.server.Do(args...)) }

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
