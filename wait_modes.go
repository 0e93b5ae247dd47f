package quorumlock

import (
	"fmt"
	"time"
)

// Waiting says how Acquire waits for a lock that somebody else holds.
type Waiting uint8

const (
	// WaitDefault is what the client's Config says, and there WaitQueued.
	WaitDefault Waiting = iota
	// WaitQueued has waiters stand in a queue on each node, in the order in which
	// they came; they are woken one at a time by whoever releases the lock. Within a client
	// the lock may pass from one to the next without the network, see [Handover], so the
	// order across clients is that of their turns, not of single waiters.
	WaitQueued
	// WaitFair is WaitQueued strictly in the order in which waiters came, as far as the clocks
	// of clients agree: nothing is handed over.
	WaitFair
	// WaitSpin is for very many locks that are held for a very short time: nothing on the
	// nodes tells of who waits, and nobody is woken. The lock is asked for again and again,
	// at growing, jittered intervals between RetryMin and RetryMax.
	WaitSpin
)

// String returns the name of the way.
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

// Handover bounds how a lease passes from one waiter of a client to the next. That takes no
// message to any node, so it is very much faster than a release and an acquisition; and
// while it goes on, no other client has its turn. The next holder has a lease of its own,
// with a larger token; that of the former has ended.
//
// It is for locks that renew themselves, and not for WaitFair.
type Handover struct {
	// Off turns it off.
	Off bool
	// MaxCount is how many times in a row a lease is handed over. Default:
	// DefaultHandovers.
	MaxCount int
	// MaxTime is how long after its grant by the nodes a lease may still be handed over.
	// Default: DefaultHandoverTime.
	MaxTime time.Duration
}

func (h Handover) withDefaults() Handover {
	if h.MaxCount == 0 {
		h.MaxCount = DefaultHandovers
	}
	h.MaxTime = orDefault(h.MaxTime, DefaultHandoverTime)
	return h
}
