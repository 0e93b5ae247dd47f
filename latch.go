package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
)

// Latch is a count-down latch: it is set to a number once, that many ids count down, and then all
// waiters go on. It is made by [Client.Latch]. A Latch is a description: it costs nothing, holds
// nothing, is immutable, and safe for concurrent use. A latch and a lock of the same name are
// independent.
//
// Each count-down has an id, and counts once however often it is repeated: the nodes keep the set
// of ids. Every later call to a majority finds all that an earlier majority confirmed. So
// a latch survives the loss of the other nodes, and never takes back a result:
//
//   - Once Set, CountDown or Delete has returned nil, all calls that begin later see its effect, in
//     any process.
//   - Once one Await has returned nil, or Count has returned 0, all later calls do, until the latch
//     is deleted.
//   - Await never returns nil before as many different ids have counted down as the latch was set
//     to, since its last deletion.
//
// A node that has lost its memory (a restart, a failover, a flush) does not count until it gets
// back the ids that it forgot. Calls on the latch give it back while a majority remembers: waiters
// within a second or two, CountDown and Count at once. A deletion of the latch also makes the node
// count again, for everything after it. Until then it is one node less, and calls fail with a
// [*NoQuorumError] if too few are left. Two cases cannot be repaired:
//
//   - A majority forgets before that. Its knowledge is gone. Delete the latch and set it again; if
//     all nodes have forgotten it, only set it again.
//   - A node forgets a latch of which another node never heard, and no call uses the latch while
//     the node recovers (MaxTTL + MaxClockSkew). A Set after that may reach these two only, and
//     read less than was counted before, until a call reaches a node that remembers.
//
// In both cases fewer ids may be reported than have counted down, never more. A running call
// repeats its knowledge to the nodes. So an id is not lost before its CountDown has returned, nor
// after a waiter has read it, as long as a majority remembers that the latch is set. (A waiter
// reads ids where nodes differ.)
//
// All keys have a TTL, see [LatchOptions]. Every use refreshes it, and so does waiting.
type Latch struct {
	client   *Client
	name     [1]string
	ttl      time.Duration
	problems []string
}

// LatchOptions are the settings of one latch. All its users should agree on them.
type LatchOptions struct {
	// TTL is how long the nodes keep an unused latch. It must be longer than any node is ever cut
	// off from all users of the latch, and at least MinLatchTTL. Default: DefaultLatchTTL.
	TTL time.Duration
}

// The limits of latches.
const (
	// DefaultLatchTTL is how long nodes keep an unused latch by default.
	DefaultLatchTTL = 24 * time.Hour
	// MinLatchTTL is the smallest TTL of a latch. Waiters refresh it about once a second, unless
	// they are delayed.
	MinLatchTTL = 10 * time.Second
	// MaxLatchCount is the largest number to which a latch can be set. Count reads all ids of a
	// latch, 1,000 at a time. Waiters read only sizes, unless each node lacks some ids.
	MaxLatchCount = 100_000
)

// Latch describes the latch with a name: not empty, no longer than MaxNameLength, and not beginning
// with "quorumlock:". Every method reports an invalid name, as an [*InvalidError].
func (c *Client) Latch(name string) *Latch {
	l := &Latch{client: c, name: [1]string{name}, ttl: DefaultLatchTTL}
	l.problems = nameProblems(l.name[:])
	return l
}

// With returns the same latch with these options, which replace all earlier ones.
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

// Name returns the name of the latch.
func (l *Latch) Name() string { return l.name[0] }

// Set sets the latch to n, from 1 to MaxLatchCount. If the latch is already set to n, Set does
// nothing and returns nil, however many ids have counted down. So all users of a latch may set it,
// in any order. If it is set to another number, the error is a [*LatchSetError]. If several calls
// set different numbers at the same time, at most one number wins. If none does and that persists,
// delete the latch.
//
// Set keeps trying while too few nodes answer. When ctx ends, the error holds ctx's error and the
// last attempt's [*NoQuorumError]. Then it is uncertain whether the latch is set; repeating Set is
// harmless. Set returns early if waiting cannot help, as [Lock.Acquire] does.
func (l *Latch) Set(ctx context.Context, n int) error {
	var invalid []string
	if n < 1 || n > MaxLatchCount {
		invalid = append(invalid, fmt.Sprintf("a latch cannot be set to %d: the range is 1 to %d", n, MaxLatchCount))
	}
	return l.runCall(ctx, opSet, "", invalid, func(x *latchCall) error { return x.set(n) })
}

// CountDown counts down, once for each id: of a worker, of a task, or a random one. Any process may
// repeat it, and each call returns nil. More ids than the latch was set to are harmless. If the
// latch is not set, the error is ErrLatchNotSet, and nothing is counted.
//
// It keeps trying, and fails, as [Latch.Set] does. After a failure for lack of a quorum, the id may
// be counted, now or later.
func (l *Latch) CountDown(ctx context.Context, id string) error {
	var invalid []string
	switch {
	case id == "":
		invalid = append(invalid, "the id of the count-down is empty")
	case len(id) > MaxNameLength:
		invalid = append(invalid, fmt.Sprintf("id %.20q... has %d bytes, more than %d", id, len(id), MaxNameLength))
	}
	return l.runCall(ctx, opCountDown, id, invalid, func(x *latchCall) error { return x.countDown(id) })
}

// Await waits until as many ids have counted down as the latch was set to, and returns nil. If the
// latch is not set, it returns ErrLatchNotSet at once. If the latch is deleted meanwhile, it
// returns ErrLatchDeleted, even if the latch was done before and this call had not seen that. So
// leave the deletion to the last waiter.
//
// The nodes wake the call when enough ids have counted down, and it also asks them once a second.
// It goes on while too few nodes answer. When ctx ends, the error holds ctx's error, and a
// [*NoQuorumError] if too few nodes answered.
func (l *Latch) Await(ctx context.Context) error {
	return l.runCall(ctx, opAwait, "", nil, (*latchCall).await)
}

// Count returns how many ids must still count down. It asks once. If too few nodes answer, the
// error is a [*NoQuorumError]; if the latch is not set, ErrLatchNotSet.
func (l *Latch) Count(ctx context.Context) (left int, err error) {
	err = l.runCall(ctx, opCount, "", nil, func(x *latchCall) error {
		left, err = x.count()
		return err
	})
	return left, err
}

// Delete deletes the latch, so that it may be set anew. Earlier count-downs no longer count,
// however late they arrive, while the clocks of clients agree within MaxClockSkew. A concurrent Set
// or CountDown may take effect before the deletion, after it, or both.
//
// So may the deletion itself if it runs for longer than MaxTTL - MaxClockSkew, or if others delete
// the latch at the same time. It may then delete a latch that was set meanwhile. Deleting a latch that is
// not set does nothing. Delete keeps trying, and fails, as [Latch.Set] does.
func (l *Latch) Delete(ctx context.Context) error {
	return l.runCall(ctx, opDelete, "", nil, (*latchCall).delete)
}

// The names of latch calls in hooks and errors.
const (
	opSet       = "set latch"
	opCountDown = "count down"
	opAwait     = "await latch"
	opCount     = "look at latch"
	opDelete    = "delete latch"
)

// LatchEvent describes a call on a latch that has ended.
type LatchEvent struct {
	// Op is "set latch", "count down", "await latch", "look at latch" or "delete latch".
	Op string
	// Name is the name of the latch, and ID the id of a count-down.
	Name, ID string
	// Rounds is how often the nodes were asked: once in the simplest case.
	Rounds int
	// Took is the time from the call to its end.
	Took time.Duration
	// Err is the error that the call returned.
	Err error
}

// runCall runs one call of a method: it checks the arguments, registers the call, and reports it to
// the hook.
func (l *Latch) runCall(ctx context.Context, op, id string, invalid []string, run func(*latchCall) error) error {
	switch problems := slices.Concat(l.problems, invalid); {
	case ctx == nil:
		return errNilContext
	case len(problems) > 0:
		return &InvalidError{Problems: problems}
	case ctx.Err() != nil:
		return contextError(ctx)
	}
	if err := l.client.beginCall(); err != nil {
		return err
	}
	defer l.client.endCall()
	x := &latchCall{latch: l, ctx: ctx, op: op, need: quorum.Majority().Need(l.client.nodes.Len())}
	x.seen = l.client.generations.latestOf(l.name[0])
	began := l.client.clock.Now()
	err := run(x)
	if hook := l.client.cfg.Hooks.Latch; hook != nil {
		report(&l.client.reporter, hook, LatchEvent{
			Op: op, Name: l.name[0], ID: id, Rounds: x.rounds, Took: l.client.clock.Now() - began, Err: err,
		})
	}
	return err
}

// Errors of latches, for errors.Is.
var (
	// ErrLatchNotSet: the latch is not set, or its TTL has passed without any use.
	ErrLatchNotSet = errors.New("quorumlock: latch not set")
	// ErrLatchDeleted: the latch was deleted while the call was waiting for it.
	ErrLatchDeleted = errors.New("quorumlock: latch deleted")
	// ErrLatchSet: the latch is set to another number. See [LatchSetError].
	ErrLatchSet = errors.New("latch set to another number")
)

// wrapError adds the name of the latch.
func (l *Latch) wrapError(err error) error { return fmt.Errorf("%w: %q", err, l.name[0]) }

// LatchSetError says that a latch is set to another number. It is an ErrLatchSet.
type LatchSetError struct {
	Name string
	// Count is the number to which the latch is set, or if not Chosen, the number on some nodes.
	Count int
	// Chosen is set if a majority of the nodes agrees on Count. Otherwise other calls set the latch
	// at the same time, or did not finish.
	Chosen bool
}

// Error says to which number the latch is set.
func (e *LatchSetError) Error() string {
	if e.Chosen {
		return fmt.Sprintf("quorumlock: latch %q is set to %d", e.Name, e.Count)
	}
	return fmt.Sprintf("quorumlock: latch %q was set to different numbers at the same time, %d on some nodes, and no majority agrees on one", e.Name, e.Count)
}

// Is reports whether target is ErrLatchSet.
func (e *LatchSetError) Is(target error) bool { return target == ErrLatchSet }

// latchOpenError is the error of a wait that ended before the latch was done.
type latchOpenError struct {
	name        string
	left, count int
}

func (e *latchOpenError) Error() string {
	return fmt.Sprintf("quorumlock: latch %q: %d of %d have still to count down", e.name, e.left, e.count)
}

// latchGenerations has the generations of recently deleted latches, which this client knows.
// With it, the next call on such a latch need not be refused first. Entries are useful while clocks
// may differ, see [latchCall.operationToken].
type latchGenerations struct {
	mu     sync.Mutex
	latest map[string]uint64
	// sweepAt is the number of entries at which useless ones are removed.
	sweepAt int
}

// observe records a generation. Generations up to passed are no longer useful.
func (g *latchGenerations) observe(name string, generation, passed uint64) {
	if generation <= passed {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.latest == nil {
		g.latest = make(map[string]uint64)
	}
	if len(g.latest) >= max(g.sweepAt, minSweep) {
		maps.DeleteFunc(g.latest, func(_ string, old uint64) bool { return old <= passed })
		g.sweepAt = 2 * len(g.latest)
	}
	g.latest[name] = max(g.latest[name], generation)
}

// latestOf returns the latest known generation of a latch; 0 if none is known.
func (g *latchGenerations) latestOf(name string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest[name]
}

// refills are the latches for which a call of this client gives ids back to nodes that forgot them.
type refills struct {
	mu   sync.Mutex
	busy map[string]struct{}
}

// begin reports whether the caller may refill: no other call refills this latch.
func (f *refills) begin(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, busy := f.busy[name]; busy {
		return false
	}
	if f.busy == nil {
		f.busy = make(map[string]struct{})
	}
	f.busy[name] = struct{}{}
	return true
}

func (f *refills) end(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, name)
}
