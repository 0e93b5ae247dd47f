package quorumlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// Latch is a count-down latch: it is set to a number once, so many count down, and those who
// wait for it go on. It is made by [Client.Latch]; it is a description, which costs nothing and
// holds nothing, is immutable, and safe for concurrent use. Latches and locks of one name do
// not know of each other.
//
// Each count-down has an id, and counts once however often it is repeated: the nodes keep the
// set of ids. What a majority of the nodes has confirmed is found by whoever asks a majority.
// So a latch survives the loss of the other nodes, and tells nothing that it takes back later:
//
//   - Once Set, CountDown or Delete has returned nil, that is so for all calls that begin later,
//     in any process.
//   - Once one Await has returned nil, or Count 0, all do so, until the latch is deleted.
//   - Await never returns nil before so many different ids have counted down as the latch was
//     set to, since it was deleted last.
//
// A node that has lost its memory (a restart, a failover, a flush) does not count until it was
// given back what it has forgotten, by whoever uses the latch while a majority remembers: those
// who wait do so within a second or two, and so do CountDown and Count; or until the latch is
// deleted, for what comes after that. Until then it is one node less, and calls fail with a [*NoQuorumError] where too few are left. Two things this cannot
// mend:
//
//   - A majority that forgets before that. What it knew is gone; the latch has to be deleted and
//     set again, or if all have forgotten it, set again.
//   - A node that forgets a latch which another node never heard of, while nobody uses the
//     latch for as long as the node recovers (MaxTTL and MaxClockSkew). Whoever sets the latch
//     again after that may reach these two only, and read less than was counted before, until
//     somebody reaches one that remembers.
//
// Both may have fewer ids told than have counted down, never more. What a call that is under way
// knows, it has the nodes told again: an id is not lost before its CountDown has returned, nor
// one that a waiter has read (it does where nodes differ), as long as a majority remembers that the latch is set.
//
// All keys have a TTL, see [LatchOptions], which every use refreshes, also by those who wait.
type Latch struct {
	client   *Client
	name     [1]string
	ttl      time.Duration
	problems []string
}

// LatchOptions are the settings of one latch. All who use it should agree on them.
type LatchOptions struct {
	// TTL is how long the nodes keep a latch that nobody uses. It must be longer than any node
	// is cut off from all who use the latch, and at least MinLatchTTL. Default:
	// DefaultLatchTTL.
	TTL time.Duration
}

// The limits of latches.
const (
	// DefaultLatchTTL is how long nodes keep a latch that nobody uses.
	DefaultLatchTTL = 24 * time.Hour
	// MinLatchTTL is the smallest TTL of a latch: those who wait refresh it about once a
	// second, if they are not held up.
	MinLatchTTL = 10 * time.Second
	// MaxLatchCount is the largest number that a latch can be set to. Count reads all ids of a
	// latch, a thousand at a time; those who wait read only sizes, unless each node lacks some ids.
	MaxLatchCount = 100_000
)

// Latch describes the latch with a name: not empty, no longer than MaxNameLength, and not
// beginning with "quorumlock:". One that breaks this is reported by every method, as an
// [*InvalidError].
func (c *Client) Latch(name string) *Latch {
	l := &Latch{client: c, name: [1]string{name}, ttl: DefaultLatchTTL}
	l.problems = nameProblems(l.name[:])
	return l
}

// With is the same latch with these options, and no others.
func (l *Latch) With(o LatchOptions) *Latch {
	m := l.client.Latch(l.name[0])
	m.ttl = cmp.Or(o.TTL, m.ttl)
	switch {
	case m.ttl < MinLatchTTL:
		m.problems = append(m.problems, fmt.Sprintf("TTL %v of a latch is under %v", m.ttl, MinLatchTTL))
	case m.ttl > maxMaxTTL:
		m.problems = append(m.problems, fmt.Sprintf("TTL %v of a latch is over %v", m.ttl, maxMaxTTL))
	case m.ttl%time.Millisecond != 0:
		m.problems = append(m.problems, fmt.Sprintf("TTL %v is not a whole number of milliseconds", m.ttl))
	}
	return m
}

// Name is the name of the latch.
func (l *Latch) Name() string { return l.name[0] }

// Set sets the latch to n, from 1 to MaxLatchCount. It does nothing, and returns nil, if that
// is what it is set to already, however many have counted down: so all who use a latch may
// set it, in any order. If it is set to another number, the error is a [*LatchSetError]; where
// several set a latch to different numbers at the same time, at most one of them gets nil, and
// if none does and it stays so, the latch has to be deleted.
//
// While too few nodes answer it keeps trying. When ctx ends, the error holds both ctx's error
// and the last attempt's, a [*NoQuorumError]; whether the latch is set is then not certain, and
// to set it again does no harm. It returns early where waiting cannot help, as [Lock.Acquire]
// does.
func (l *Latch) Set(ctx context.Context, n int) error {
	var invalid []string
	if n < 1 || n > MaxLatchCount {
		invalid = append(invalid, fmt.Sprintf("a latch cannot be set to %d: from 1 to %d", n, MaxLatchCount))
	}
	return l.do(ctx, latchSet, "", invalid, func(x *latchCall) error { return x.set(n) })
}

// CountDown counts down, once for each id: of a worker, a task, or a random one. It may be
// repeated, by anybody, as often as needed, and returns nil each time; more ids than the latch
// was set to do no harm. If the latch is not set, the error is ErrLatchNotSet, and nothing is
// counted.
//
// It keeps trying, and ends with errors, as [Latch.Set] does: if it fails for want of a quorum,
// the id may have been counted, or will be.
func (l *Latch) CountDown(ctx context.Context, id string) error {
	var invalid []string
	switch {
	case id == "":
		invalid = append(invalid, "the id of the count-down is empty")
	case len(id) > MaxNameLength:
		invalid = append(invalid, fmt.Sprintf("id %.20q... has %d bytes, more than %d", id, len(id), MaxNameLength))
	}
	return l.do(ctx, latchCountDown, id, invalid, func(x *latchCall) error { return x.countDown(id) })
}

// Await waits until as many have counted down as the latch was set to, and returns nil; at
// once, if they have. If the latch is not set, it returns ErrLatchNotSet at once; if it is
// deleted meanwhile, ErrLatchDeleted, even if it was done before and this call did not get to
// know; so it is for the last of those who wait to delete it.
//
// The nodes tell when they have heard from enough, and it asks them once a second besides. It
// goes on while too few of them answer. When ctx ends, the error holds ctx's error, and a
// [*NoQuorumError] if it was for that.
func (l *Latch) Await(ctx context.Context) error {
	return l.do(ctx, latchAwait, "", nil, (*latchCall).await)
}

// Count is how many have still to count down. It asks once: if too few nodes answer, the error
// is a [*NoQuorumError]; if the latch is not set, ErrLatchNotSet.
func (l *Latch) Count(ctx context.Context) (left int, err error) {
	err = l.do(ctx, latchLook, "", nil, func(x *latchCall) error {
		left, err = x.count()
		return err
	})
	return left, err
}

// Delete deletes the latch: it may be set anew then, and count-downs from before, however late
// they arrive, do not count any more, as long as the clocks of clients agree within MaxClockSkew. A
// Set or a CountDown that is under way meanwhile may be carried out before, after, or both. So
// may the deletion itself, if it is under way for longer than MaxTTL less MaxClockSkew, or while others delete it:
// it may delete what is set meanwhile. To delete one that is not set does nothing. It keeps trying, and ends with errors, as [Latch.Set]
// does.
func (l *Latch) Delete(ctx context.Context) error {
	return l.do(ctx, latchDelete, "", nil, (*latchCall).delete)
}

// The operations on latches, as hooks and errors name them.
const (
	latchSet       = "set latch"
	latchCountDown = "count down"
	latchAwait     = "await latch"
	latchLook      = "look at latch"
	latchDelete    = "delete latch"
)

// LatchEvent describes a call that has ended.
type LatchEvent struct {
	// Op is "set latch", "count down", "await latch", "look at latch" or "delete latch".
	Op string
	// Name is that of the latch, and ID that of a count-down.
	Name, ID string
	// Rounds is how often the nodes were asked: once if nothing stood in the way.
	Rounds int
	// Took is the time from the call to its end.
	Took time.Duration
	// Err is what it returned.
	Err error
}

// do does what is common to all calls.
func (l *Latch) do(ctx context.Context, op, id string, invalid []string, run func(*latchCall) error) error {
	switch problems := slices.Concat(l.problems, invalid); {
	case ctx == nil:
		return errNilContext
	case len(problems) > 0:
		return &InvalidError{Problems: problems}
	case ctx.Err() != nil:
		return whyDone(ctx)
	}
	if err := l.client.enter(); err != nil {
		return err
	}
	defer l.client.leave()
	x := &latchCall{latch: l, ctx: ctx, op: op, need: quorum.Majority().Need(l.client.nodes.Len())}
	x.seen = l.client.generations.of(l.name[0])
	began := l.client.clock.Now()
	err := run(x)
	if hook := l.client.cfg.Hooks.Latch; hook != nil {
		fire(&l.client.reports, hook, LatchEvent{
			Op: op, Name: l.name[0], ID: id, Rounds: x.rounds, Took: l.client.clock.Now() - began, Err: err,
		})
	}
	return err
}
