package peer

import (
	"context"
	"strconv"

	"github.com/quorumlock/quorumlock"
)

var (
	join = oursPeer("join", joinKind, nil,
		"This library's Join of a lock, a permit of a semaphore, and a reader's lock, given in the opposite order by every other caller.")
	striped = oursPeer("striped", stripedKind, nil,
		"This library's Striped: where locks are free, each caller has a name on one of 1,048,576 stripes; where they are not, on one of 4, without handing over within a client.")
)

func joinKind(c *quorumlock.Client, name string, _ Options) Lock {
	parts := []quorumlock.Acquirer{
		c.RedLock(name), c.Semaphore(name, Permits).Acquirer(1), c.RWLock(name + ":reader").Read(),
	}
	return &joinLock{parts: parts, oursLock: oursLock{take: jointly(parts)}}
}

func jointly(parts []quorumlock.Acquirer) func(context.Context) (lease, error) {
	joined := quorumlock.Join(parts...)
	return func(ctx context.Context) (lease, error) { return held(joined.Acquire(ctx)) }
}

type joinLock struct {
	oursLock
	parts []quorumlock.Acquirer
}

func (l *joinLock) Number(caller int) {
	if caller%2 == 1 {
		l.take = jointly([]quorumlock.Acquirer{l.parts[2], l.parts[1], l.parts[0]})
	}
}

// fewStripes is the number of stripes that callers contend for.
const fewStripes = 4

func stripedKind(c *quorumlock.Client, name string, o Options) Lock {
	if o.Contenders == 0 {
		return &oursLock{take: leaseOf(c.Striped("bench:stripe", quorumlock.MaxStripes).Lock(name))}
	}
	l := &stripedLock{stripes: c.Striped("bench:stripe", fewStripes), name: name}
	l.Number(0)
	return l
}

// stripedLock is a striped lock over a small number of stripes.
type stripedLock struct {
	oursLock
	stripes *quorumlock.Striped
	name    string
	stripe  int
}

// Number gives each caller a name of its own.
func (l *stripedLock) Number(caller int) {
	name := l.name + ":" + strconv.Itoa(caller)
	lock := l.stripes.Lock(name).With(quorumlock.LockOptions{NoHandover: true})
	l.take, l.stripe = leaseOf(lock), l.stripes.Stripe(name)
}

func (l *stripedLock) Claim() Claim { return Claim{Slot: l.stripe, Weight: 1, Limit: 1} }
