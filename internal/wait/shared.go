package wait

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
)

// Env has the inputs of the waiters of a client, besides its engine.
type Env struct {
	// RetryMin and RetryMax bound the backoff between two attempts when nodes cannot wake a waiter.
	RetryMin, RetryMax time.Duration
	// Slots are the pools of semaphores.
	Slots  *slots.Pools
	Events Events
}

// Events are told what happens to waiters and their subscriptions. The methods must not block, and must not call the
// subscriptions.
type Events interface {
	// AttemptFailed says that an attempt has ended without a lease. attempt counts from 1.
	AttemptFailed(s *lease.Spec, attempt int, err error)
	// CannotFollow says, once for each node, that waiters do not hear of Redisson's releases there.
	CannotFollow(node string, err error)
	// LatchCounted passes on the message of node i that an id was counted down: latches wait through the same
	// subscriptions.
	LatchCounted(i int, name string)
	// SubscriptionsChanged says that messages may have been missed, or arrive from now on.
	SubscriptionsChanged()
}

// shared is what all waiters of a client share.
type shared struct {
	env           Env
	engine        *lease.Engine
	subscriptions *inbox.Set
	// interval is the longest time until the next beat. Nodes keep entries for longer.
	interval atomic.Int64
}

// BeatInterval is the time between two beats of a client with a waiter near the head of a queue: a message can be
// lost, or reach a process that is paused. Jitter takes off up to a quarter.
const BeatInterval = time.Second

// A client whose waiters all have more than nearHead waiters before them beats less often, in proportion to the least
// of their ranks, at least every maxBeatInterval. So the load of a queue on its nodes grows with the logarithm of its
// length, and then by one beat in maxBeatInterval for each further client.
const (
	nearHead        = 8
	maxBeatInterval = 20 * time.Second
)

// beatInterval is BeatInterval for a waiter with rank others before it.
func beatInterval(rank int) time.Duration {
	if rank >= nearHead*int(maxBeatInterval/BeatInterval) {
		return maxBeatInterval
	}
	return max(BeatInterval, time.Duration(rank)*BeatInterval/nearHead)
}

func signal(signals chan<- struct{}) {
	select {
	case signals <- struct{}{}:
	default: // it does not wait yet, or has a signal already
	}
}

// backoffBefore returns the pause before the next attempt: a growing, jittered backoff, or the time
// until enough claims expire if that is shorter.
func (s *shared) backoffBefore(attempt int, r lease.Retry) time.Duration {
	backoff := decision.Backoff(attempt-1, s.env.RetryMin, s.longestBackoff(), s.engine.Jitter())
	if r.FreeAfter <= 0 {
		return backoff // no expiry to wait for
	}
	return min(backoff, max(r.FreeAfter, time.Millisecond))
}

func (s *shared) longestBackoff() time.Duration { return max(s.env.RetryMax, s.contentionPause()) }

// EntryTTL is how long nodes keep what a client tells them in each beat, if it beats as often as it ever does.
func (s *shared) EntryTTL() time.Duration { return s.entryTTLFor(BeatInterval) }

// entryTTL is how long nodes keep a waiter after an attempt or a beat: until after the next beat.
func (s *shared) entryTTL() time.Duration {
	return s.entryTTLFor(time.Duration(s.interval.Load()))
}

// longestEntryTTL is the longest time for which a node may keep a waiter.
func (s *shared) longestEntryTTL() time.Duration { return s.entryTTLFor(maxBeatInterval) }

func (s *shared) entryTTLFor(interval time.Duration) time.Duration {
	return (interval + 2*BeatInterval + 2*s.engine.Timeout).Truncate(time.Millisecond)
}

// The bounds of SettleTime.
const (
	minSettle = time.Millisecond
	maxSettle = 20 * time.Millisecond
)

// SettleTime is how long most nodes need for an answer, with a margin. Events that happen on all
// nodes at the same time arrive within it.
func (s *shared) SettleTime() time.Duration {
	return min(max(4*s.engine.Nodes.MedianLatency(), minSettle), maxSettle)
}

// contentionPause is 8 latencies: the bound of a backoff is at least that. A failed attempt blocks other
// contenders for 2 latencies, until its grants are undone. Shorter pauses let a few contenders on
// slow links block each other for seconds.
func (s *shared) contentionPause() time.Duration { return 8 * s.engine.Nodes.MedianLatency() }

// Result is a lease, and how it was acquired.
type Result struct {
	Lease *lease.Lease
	// Attempts counts the attempts. Waited is the time from the call to the grant.
	Attempts int
	Waited   time.Duration
	// HandedOver is set if another lease of this client was handed over.
	HandedOver bool
}
