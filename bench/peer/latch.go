package peer

import (
	"context"
	"strconv"

	"github.com/quorumlock/quorumlock"
)

var latch = oursPeer("latch", latchKind, nil,
	"This library's Latch. An acquire sets one, counts it down, and waits for it; a release deletes it. Where callers contend, all of them meet at one latch, again and again.")

func latchKind(c *quorumlock.Client, name string, o Options) Lock {
	return &latchLock{client: c, name: name, callers: max(1, o.Contenders), meeting: 1}
}

// latchLock uses a new latch for each acquire.
type latchLock struct {
	client  *quorumlock.Client
	name    string
	callers int
	// meeting is the number of callers that must arrive, and caller the number of this one.
	meeting, caller int
	round           int
}

// Number makes the caller meet all others. A caller without a number is alone.
func (l *latchLock) Number(caller int) { l.caller, l.meeting = caller, l.callers }

func (l *latchLock) Meets() bool { return l.meeting > 1 }

func (l *latchLock) latch(round int) *quorumlock.Latch {
	return l.client.Latch(l.name + ":" + strconv.Itoa(round)).With(quorumlock.LatchOptions{TTL: quorumlock.MinLatchTTL})
}

func (l *latchLock) Acquire(ctx context.Context) error {
	latch := l.latch(l.round)
	if err := latch.Set(ctx, l.meeting); err != nil {
		return err
	}
	if err := latch.CountDown(ctx, strconv.Itoa(l.caller)); err != nil {
		return err
	}
	return latch.Await(ctx)
}

// Release deletes a latch that has no waiters left. If callers met there, that is the previous latch: a caller that
// arrived at the next one has left the previous one.
func (l *latchLock) Release(ctx context.Context) error {
	round := l.round
	l.round++
	switch {
	case l.meeting == 1:
		return l.latch(round).Delete(ctx)
	case l.caller == 0 && round > 0:
		return l.latch(round - 1).Delete(ctx)
	}
	return nil
}
