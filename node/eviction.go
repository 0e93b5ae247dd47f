package node

import (
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Eviction implements [wire.Weak].
func (r *redisNode) Eviction() string {
	if reason := r.link.eviction.Load(); reason != nil {
		return *reason
	}
	return ""
}

// memoryPolicy has the settings of a server for the case that its memory is full. A field that INFO does not show is "".
type memoryPolicy struct{ policy, limit string }

func memoryPolicyOf(info string) memoryPolicy {
	return memoryPolicy{infoField(info, "maxmemory_policy"), infoField(info, "maxmemory")}
}

// keepsAll reports whether the policy evicts nothing at any limit.
func (m memoryPolicy) keepsAll() bool { return m.policy == "" || m.policy == "noeviction" }

// eviction says why the server may evict locks, or returns "". Without a limit no policy evicts anything.
func (m memoryPolicy) eviction() string {
	switch {
	case m.keepsAll() || m.limit == "0":
		return ""
	case m.limit == "":
		return fmt.Sprintf("maxmemory-policy is %s and INFO does not show maxmemory", m.policy)
	default:
		return fmt.Sprintf("maxmemory-policy is %s and maxmemory is %s bytes", m.policy, m.limit)
	}
}

// lookAgain is how often a connection in use asks for the memory policy, if only the limit 0 keeps the server from
// evictions. CONFIG SET can change the limit at any time.
const lookAgain = 10 * time.Second

// evictionWatch decides when to ask a server for its memory policy again. One call at a time uses it.
type evictionWatch struct {
	// allowed is set if the server may evict locks.
	allowed bool
	// on is set if the server would evict locks if it had a limit.
	on bool
	// every is lookAgain, except in tests. asked is when the server was asked last.
	every time.Duration
	asked time.Time
}

// checkMemory returns an error if the server may evict locks, and that is not allowed.
func (l *link) checkMemory(m memoryPolicy) error {
	reason, w := m.eviction(), &l.evictions
	w.on, w.asked = !m.keepsAll() && reason == "", l.began
	if reason != "" && !w.allowed {
		return fmt.Errorf("%w: %s, so the server may evict locks: set maxmemory-policy to noeviction, or maxmemory to 0; or set AllowEviction (--allow-eviction), if locks only save work", errMisconfiguredServer, reason)
	}
	l.eviction.Store(&reason)
	return nil
}

// watch adds a command to the commands of an exchange, if it is time to look at the memory policy again.
func (l *link) watch(commands rueidis.Commands) rueidis.Commands {
	w := &l.evictions
	if !w.on || l.began.Sub(w.asked) < w.every {
		return commands
	}
	w.asked = l.began
	return append(commands, l.client.B().Arbitrary("INFO", "memory").Build())
}

// watched takes the answer to the command of watch. A server that may evict locks by now is not used again: the next
// call connects, and its handshake has the error.
func (l *link) watched(result rueidis.RedisResult) {
	if info, err := result.ToString(); err == nil {
		l.unsound = l.checkMemory(memoryPolicyOf(info)) != nil
	}
}
