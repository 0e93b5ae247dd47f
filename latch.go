package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/latch"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wait"
	"github.com/quorumlock/quorumlock/internal/wire"
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
// back the ids that it forgot. Calls on the latch give them back while a majority remembers: waiters
// within a second or two, CountDown and Count within a second. A deletion of the latch also makes the node
// count again, for everything after it. Until then it is one node less, and calls fail with a
// [*NoQuorumError] if too few are left. Two cases cannot be repaired:
//
//   - A majority forgets before that. Its knowledge is gone. Delete the latch and set it again; if
//     all nodes have forgotten it, only set it again.
//   - A node forgets a latch of which another node never heard, and no call on the latch reaches
//     enough nodes while the node recovers (MaxTTL + MaxClockSkew). A Set after that may reach these
//     two only, and read less than was counted before, until a call reaches a node that remembers.
//
// In both cases fewer ids may be reported than have counted down, never more. A running call
// repeats its knowledge to the nodes. So an id is not lost before its CountDown has returned, nor
// after a waiter has read it. That holds while a majority remembers that the latch is set. (A
// waiter reads ids where nodes differ.)
//
// All keys have a TTL, see [LatchOptions]. Every use refreshes it, and so does waiting.
type Latch struct {
	client   *Client
	name     string
	ttl      time.Duration
	problems []string
}

// LatchOptions are the settings of one latch. Its users need not agree on them: each use keeps the latch for
// its own TTL at least, and never shortens its life.
type LatchOptions struct {
	// TTL is how long the nodes keep an unused latch. It must be longer than any node is ever cut
	// off from all users of the latch, and at least 10 s. Default: 24 h.
	TTL time.Duration
}

// The limits of latches.
const (
	// defaultLatchTTL is how long nodes keep an unused latch by default.
	defaultLatchTTL = 24 * time.Hour
	// minLatchTTL is the smallest TTL of a latch. Waiters refresh it about once a second, unless
	// they are delayed.
	minLatchTTL = 10 * time.Second
)

// Latch describes the latch with a name: not empty, no longer than 512 bytes, and not beginning
// with "quorumlock:". Every method reports an invalid name, as an [*InvalidError].
func (c *Client) Latch(name string) *Latch {
	l := &Latch{client: c, name: name, ttl: defaultLatchTTL}
	l.problems = nameProblems(c.cfg.Prefix, []string{c.cfg.Prefix + name})
	return l
}

// With returns the same latch with these options. A TTL of zero changes nothing.
func (l *Latch) With(o LatchOptions) *Latch {
	if l.client == nil {
		return l
	}
	m := l.client.Latch(l.name)
	m.ttl = cmp.Or(o.TTL, l.ttl)
	switch {
	case m.ttl < minLatchTTL:
		m.problems = append(m.problems, fmt.Sprintf("TTL %v of a latch is under %v", m.ttl, minLatchTTL))
	case m.ttl > maxMaxTTL:
		m.problems = append(m.problems, fmt.Sprintf("TTL %v of a latch is over %v", m.ttl, maxMaxTTL))
	case m.ttl%time.Millisecond != 0:
		m.problems = append(m.problems, fmt.Sprintf("TTL %v is not a whole number of milliseconds", m.ttl))
	}
	return m
}

// Name returns the name of the latch.
func (l *Latch) Name() string { return l.name }

// Set sets the latch to n, from 1 to 1000. If the latch is already set to n, Set does
// nothing and returns nil, however many ids have counted down. So all users of a latch may set it,
// in any order. If it is set to another number, the error is a [*LatchSetError]. If several calls
// set different numbers at the same time, at most one number wins. If none does and that persists,
// delete the latch. That may also happen if a node loses its memory while the others differ: it may
// have had the number that won.
//
// Set keeps trying while too few nodes answer. When ctx ends, the error holds ctx's error and the
// last attempt's [*NoQuorumError]. Then it is uncertain whether the latch is set; repeating Set is
// harmless. Set returns early if waiting cannot help, as [Lock.Acquire] does.
func (l *Latch) Set(ctx context.Context, n int) error {
	var invalid []string
	if n < 1 || n > wire.MaxLatchCount {
		invalid = append(invalid, fmt.Sprintf("a latch cannot be set to %d: the range is 1 to %d", n, wire.MaxLatchCount))
	}
	_, err := l.runCall(ctx, "set latch", "", invalid, func(x *latch.Call) latch.Outcome { return x.Set(n) })
	return err
}

// CountDown counts down, once for each id: of a worker, of a task, or a random one. Any process may
// repeat it, and each call returns nil. More ids than the latch was set to are harmless: a latch that is
// done keeps none of them. If the latch is not set, the error is ErrLatchNotSet, and nothing is counted.
//
// It keeps trying, and fails, as [Latch.Set] does. After a failure for lack of a quorum, the id may
// be counted, now or later.
func (l *Latch) CountDown(ctx context.Context, id string) error {
	var invalid []string
	switch {
	case id == "":
		invalid = append(invalid, "the id of the count-down is empty")
	case len(id) > maxNameLength:
		invalid = append(invalid, fmt.Sprintf("id %.20q... has %d bytes, more than %d", id, len(id), maxNameLength))
	}
	_, err := l.runCall(ctx, "count down", id, invalid, func(x *latch.Call) latch.Outcome { return x.CountDown(id) })
	return err
}

// Await waits until as many ids have counted down as the latch was set to, and returns nil. If the
// latch is not set, it returns ErrLatchNotSet at once. If the latch is deleted meanwhile, it
// returns ErrLatchDeleted, even if the latch was done before and this call had not seen that. So
// leave the deletion to the last waiter.
//
// The nodes wake the call when enough ids have counted down, and it also asks them once a second.
// It goes on while too few nodes answer, unless waiting cannot help, as [Latch.Set] does. When ctx ends,
// the error holds ctx's error, and a [*NoQuorumError] if too few nodes answered. If several calls have set different numbers and no
// majority agrees on one, Await returns a [*LatchSetError] at once.
func (l *Latch) Await(ctx context.Context) error {
	_, err := l.runCall(ctx, "await latch", "", nil, (*latch.Call).Await)
	return err
}

// Count returns how many ids must still count down. It asks once. If too few nodes answer, the
// error is a [*NoQuorumError]; if the latch is not set, ErrLatchNotSet. If several calls have set
// different numbers and no majority agrees on one, it is a [*LatchSetError].
func (l *Latch) Count(ctx context.Context) (left int, err error) {
	return l.runCall(ctx, "count latch", "", nil, (*latch.Call).Count)
}

// Delete deletes the latch, so that it may be set anew. Earlier count-downs no longer count,
// however late they arrive, while the clocks of clients agree within MaxClockSkew. A concurrent Set
// or CountDown may take effect before the deletion, after it, or both.
//
// If Delete runs for longer than MaxTTL - MaxClockSkew, or others delete the latch at the same time, it
// may also delete a latch that was set meanwhile. Deleting a latch that is not set does nothing. Delete
// keeps trying, and fails, as [Latch.Set] does.
func (l *Latch) Delete(ctx context.Context) error {
	_, err := l.runCall(ctx, "delete latch", "", nil, (*latch.Call).Delete)
	return err
}

// LatchEvent describes a call on a latch that has ended.
type LatchEvent struct {
	// Op is "set latch", "count down", "await latch", "count latch" or "delete latch".
	Op Operation
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
// the hook. The result left is how many ids must still count down, if the method reads that.
func (l *Latch) runCall(ctx context.Context, op Operation, id string, wrong []string, run func(*latch.Call) latch.Outcome) (left int, err error) {
	switch problems := slices.Concat(l.problems, wrong); {
	case ctx == nil:
		return 0, invalid(nilContext)
	case l.client == nil:
		return 0, invalid(zeroValue)
	case len(problems) > 0:
		return 0, invalid(problems...)
	case ctx.Err() != nil:
		return 0, lease.ContextError(ctx)
	}
	if err := l.client.beginCall(); err != nil {
		return 0, err
	}
	defer l.client.endCall()
	x := l.client.latches.Call(ctx, l.client.cfg.Prefix+l.name, l.ttl)
	began := l.client.clock.Now()
	if op != "await latch" && op != "count latch" {
		l.client.enlist(ctx)
	}
	o := run(x)
	err = l.outcomeError(ctx, op, &o)
	if hook := l.client.cfg.Hooks.Latch; hook != nil {
		report(&l.client.reporter, hook, LatchEvent{
			Op: op, Name: l.name, ID: id, Rounds: x.Rounds(), Took: l.client.clock.Now() - began, Err: err,
		})
	}
	return o.Left, err
}

func (l *Latch) outcomeError(ctx context.Context, op Operation, o *latch.Outcome) error {
	err := l.resultError(op, o)
	switch {
	case o.CutShort && err == nil:
		err = lease.ErrCutShort
	case o.CutShort:
		err = fmt.Errorf("%w: %w", err, lease.ErrCutShort)
	}
	var why error
	switch o.Stopped {
	case latch.ByContext:
		why = lease.ContextError(ctx)
	case latch.ByClose:
		why = ErrClosed
	}
	if err == nil || why == nil {
		return cmp.Or(err, why)
	}
	return lease.GaveUp(err, why)
}

// resultError returns the error for the last result of the nodes.
func (l *Latch) resultError(op Operation, o *latch.Outcome) error {
	switch o.Result {
	case latch.NotSet:
		return fmt.Errorf("%w: %q", ErrLatchNotSet, l.name)
	case latch.Deleted:
		return fmt.Errorf("%w: %q", ErrLatchDeleted, l.name)
	case latch.OtherCount:
		return &LatchSetError{Name: l.name, Count: o.Count, Chosen: o.Chosen}
	case latch.Open:
		return &latchOpenError{name: l.name, left: o.Left, count: o.Count}
	case latch.NoQuorum:
		s := o.Shortage
		e := &NoQuorumError{Op: op, Names: []string{l.name}, Need: s.Need, Agreed: s.Agreed, Pending: s.Pending, Total: s.Total}
		for _, r := range s.Refusals {
			e.Nodes = append(e.Nodes, NodeError{Node: l.client.nodes.Name(r.Node), Err: r.Err})
		}
		return e
	default:
		return nil
	}
}

func newLatches(c *Client) *latch.Latches {
	return latch.New(latch.Env{
		Nodes:         c.nodes,
		Clock:         c.clock,
		Tokens:        latchTokens{&c.engine.Tokens},
		Subscriptions: c.queues.Subscriptions(),
		Limits:        c.cfg.limits(),
		Inbox:         c.id,
		Keep:          c.queues.EntryTTL(),
		Recheck:       wait.BeatInterval,
		SettleTime:    c.queues.SettleTime,
		RetryMin:      c.cfg.RetryMin,
		RetryMax:      c.cfg.RetryMax,
		Jitter:        c.cfg.Jitter,
		Quit:          c.quit,
	})
}

// latchTokens implements latch.TokenClock. The tokens of a lock of the same name may be ahead of the
// clock, so they are kept apart.
type latchTokens struct{ clock *lease.TokenClock }

func (t latchTokens) Propose(name string) uint64 {
	return t.clock.ProposeByClock([]string{latchPrefix + name}, 0)
}
func (t latchTokens) Observe(token uint64, name string) { t.clock.Observe(token, latchPrefix+name) }
func (t latchTokens) Plausible(token uint64) bool       { return t.clock.Plausible(token, t.clock.Now()) }
func (t latchTokens) IsCurrent(token uint64) bool       { return t.clock.IsCurrent(token) }

// latchPrefix begins the name of a latch among the names of tokens. No name of a lock does.
const latchPrefix = reservedPrefix + "latch:"

// Errors of latches, for errors.Is.
var (
	// ErrLatchNotSet: the latch is not set, or its TTL has passed without any use.
	ErrLatchNotSet = errors.New("quorumlock: latch not set")
	// ErrLatchDeleted: the latch was deleted while the call was waiting for it.
	ErrLatchDeleted = errors.New("quorumlock: latch deleted")
	// ErrLatchSet: the latch is set to another number. See [LatchSetError].
	ErrLatchSet = errors.New("quorumlock: latch set to another number")
)

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
	return fmt.Sprintf("quorumlock: latch %q is open: %d of %d ids have not counted down", e.name, e.left, e.count)
}
