package quorumlock

import (
	"fmt"
	"time"
)

// Waiting says how Acquire waits for a lock that is held.
type Waiting uint8

const (
	// WaitDefault is the setting of the client's Config. In a Config it means WaitQueued.
	WaitDefault Waiting = iota
	// WaitQueued queues the waiter on each node, in the order of arrival. A release wakes one
	// waiter at a time. Within a client, the lock may pass from one waiter to the next without the
	// network; see [Handover]. So the order across clients is the order of their turns, not of
	// single waiters.
	WaitQueued
	// WaitFair is WaitQueued strictly in the order in which waiters came, as exactly as the clocks
	// of clients agree. Leases are not handed over.
	WaitFair
	// WaitSpin is for very many locks that are held for a very short time. Nodes keep no queue and
	// wake no waiter. The client polls the lock at growing, jittered intervals between RetryMin and
	// RetryMax.
	WaitSpin
)

// String returns the name of the mode.
func (w Waiting) String() string {
	switch w {
	case WaitDefault:
		return "default"
	case WaitQueued:
		return "queued"
	case WaitFair:
		return "fair"
	case WaitSpin:
		return "spin"
	default:
		return fmt.Sprintf("Waiting(%d)", uint8(w))
	}
}

// The defaults of a [Handover].
const (
	DefaultHandovers    = 256
	DefaultHandoverTime = 100 * time.Millisecond
)

// Handover bounds how a lease passes from one waiter of a client to the next. A hand-over takes no
// message to any node, so it is far faster than a release and an acquisition. While hand-overs go
// on, no other client has its turn. The next holder gets a lease of its own with a larger token;
// the former lease has ended.
//
// Only locks that renew themselves are handed over, and not with WaitFair.
type Handover struct {
	// Off turns hand-overs off.
	Off bool
	// MaxCount is how often in a row a lease is handed over. Default: DefaultHandovers.
	MaxCount int
	// MaxTime is how long after the nodes' grant a lease may still be handed over. Default:
	// DefaultHandoverTime.
	MaxTime time.Duration
}

func (h Handover) withDefaults() Handover {
	if h.MaxCount == 0 {
		h.MaxCount = DefaultHandovers
	}
	h.MaxTime = orDefault(h.MaxTime, DefaultHandoverTime)
	return h
}
