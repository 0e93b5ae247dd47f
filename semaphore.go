package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Semaphore describes a semaphore with a number of permits. Any client may hold some of them, and
// at most that many are held at once. It is made by [Client.Semaphore]. It is immutable, and safe
// for concurrent use.
//
// Each permit is a numbered slot, and each slot is a lock that needs a majority of the nodes. So
// the holder of permits has a [Lease] with all its properties: it renews itself, ends in time, is
// lost with its nodes, and survives the loss of a minority.
type Semaphore struct {
	client *Client
	name   string
	// lock has the settings that all acquisitions share, for a single permit.
	lock *Lock
}

// Semaphore describes a semaphore with the given number of permits, from 1 to 1024. One Acquire takes at most
// MaxNames of them. Each
// permit needs a majority of the nodes. The rules for names are as for [Client.RedLock]. A
// semaphore and a lock of the same name are independent.
//
// All programs should give the same number. If they differ, at most the largest number of permits
// is held. To change the number while programs run, use [Semaphore.SetPermits]: it then counts for
// all programs, whatever number they give.
func (c *Client) Semaphore(name string, permits int) *Semaphore {
	p := c.slotPools.Of(c.cfg.Prefix + name)
	// It is a lock of that name, and only the names on the nodes differ.
	l := newLock(c, []string{name}, quorum.Majority())
	l.spec.Queue[0] = p.Name()
	l.spec.Names = l.spec.Queue[:]
	l.spec.HandOver = false
	l.spec.Slots = &slots.Request{Pool: p, Semaphore: name, Want: 1, Permits: permits}
	if permits < 1 || permits > slots.MaxPermits {
		l.addProblems(fmt.Sprintf("a semaphore has from 1 to %d permits, not %d", slots.MaxPermits, permits))
	}
	return &Semaphore{client: c, name: name, lock: l}
}

// With returns the same semaphore with these options besides its earlier ones, as [Lock.With] does. NoHandover has
// no effect, as permits are never handed over within a client. Every method reports invalid options, as an [*InvalidError].
func (s *Semaphore) With(o LockOptions) *Semaphore {
	return &Semaphore{client: s.client, name: s.name, lock: orZero(s.lock).With(o)}
}

// Name returns the name of the semaphore.
func (s *Semaphore) Name() string { return s.name }

func (s *Semaphore) lockFor(n int) *Lock {
	l := *orZero(s.lock)
	if l.client == nil {
		return &l
	}
	l.spec.Names = l.spec.Queue[:]
	request := *l.spec.Slots
	request.Want = n
	l.spec.Slots = &request
	if n < 1 || n > MaxNames {
		l.addProblems(fmt.Sprintf("from 1 to %d permits can be acquired at once, not %d", MaxNames, n))
	}
	return &l
}

func tooManyPermits(n, size int) string {
	return fmt.Sprintf("%d permits requested, the semaphore has %d", n, size)
}

// Acquire takes n permits at once, all or none, and waits for them as long as ctx allows. The
// result is one lease, whose release gives all of them back.
//
// Acquire is FIFO: across clients in the order in which they came, and within a client in the order
// of calls, as exactly as clocks agree. A waiter for several permits is not overtaken by waiters
// for fewer: these wait until it has its permits. Calls that ask at the same time may be answered in
// any order. Waiters need not poll: a release wakes as many waiters as its permits can serve.
//
// If permits are free, Acquire takes one round trip when this client knows which slots are free.
// Otherwise the nodes tell it, and it takes two. See docs/semaphore.md.
//
// Every call takes permits of its own. Leases of a semaphore are never nested. The error is
// ErrOverlap if the context holds too many permits, so that the call would wait for itself. The
// rest is as for [Lock.Acquire]: ctx bounds only the acquisition, and the errors are the same. In
// addition, asking for more permits than the semaphore has is an [*InvalidError]. If n is larger than
// the number of permits that this client knows, Acquire first asks the nodes for the present number,
// and fails with a [*NoQuorumError] at once if too few answer. If the semaphore is full, the
// [*HeldError] names one of the holders, or "quorumlock:permits" for all of them.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, true)
}

func (s *Semaphore) acquire(ctx context.Context, n int, waits bool) (*Lease, error) {
	l, err := s.acquirable(ctx, n)
	if err != nil {
		return nil, err
	}
	return l.acquire(ctx, waits)
}

// TryAcquire takes n permits if it can at once, without waiting for other holders. It fails as
// [Lock.TryAcquire] does: with a [*HeldError] if too few permits are free or they are reserved for
// earlier waiters, and with a [*NoQuorumError] if too few nodes answer.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, false)
}

// Do runs fn while it holds n permits. It relates to Acquire as [Lock.Do] does to [Lock.Acquire].
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error) error {
	return doHeld(ctx, func(ctx context.Context) (*Lease, error) { return s.Acquire(ctx, n) }, fn)
}

// warnOfSize logs that another program has set the number of permits to another one than this program
// was configured with.
func (c *Client) warnOfSize(r *slots.Request) {
	if size, ok := r.OtherSize(); ok {
		c.warn("quorumlock: a semaphore was set to another number of permits than this program was configured with",
			"semaphore", r.Semaphore, "set", size, "configured", r.Permits)
	}
}

// acquirable returns the lock that acquires n permits. If ctx would then hold more permits than
// there seem to be, it first asks the nodes: the number may have been set since.
func (s *Semaphore) acquirable(ctx context.Context, n int) (*Lock, error) {
	l := s.lockFor(n)
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	if size, _ := l.spec.Slots.Size(); l.permitsHeldBy(ctx)+n > size {
		if _, err := s.permits(ctx); err != nil {
			return nil, err
		}
	}
	if size, _ := l.spec.Slots.Size(); n > size {
		return nil, invalid(tooManyPermits(n, size))
	}
	return l, nil
}

// Slots returns the slot numbers and the token of the permits that ctx carries; see [Lease.Slots]
// and [Lease.Token]. ctx is the context that Do passes to its function, or one that holds a
// [Lease.Context]. Of several leases it is the last acquired. ok is true even if that lease has
// ended since.
func (s *Semaphore) Slots(ctx context.Context) (slots []int, token uint64, ok bool) {
	if ctx == nil || s.client == nil {
		return nil, 0, false
	}
	q := &permitQuery{engine: s.lock.client.engine, pool: s.lock.spec.Slots.Pool.Name()}
	ctx.Value(q)
	if q.innermost == nil {
		return nil, 0, false
	}
	return slotNumbers(q.innermost.Spec()), q.innermost.Token(), true
}

// Slots returns the numbers of the lease's permits, from 0 to the number of permits - 1, in
// ascending order; nil for the lease of a lock. While the lease is valid, no other owner has one of
// them. So they can stand for one of several resources: a port, a shard.
func (l *Lease) Slots() []int {
	if l.lease == nil {
		return nil
	}
	return slotNumbers(l.lease.Spec())
}

// slotNumbers implements Lease.Slots.
func slotNumbers(s *lease.Spec) []int {
	if s.Slots == nil {
		return nil
	}
	numbers := make([]int, len(s.Names))
	for i, name := range s.Names {
		numbers[i] = wire.SlotOf(s.Slots.Pool.Name(), name)
	}
	slices.Sort(numbers)
	return numbers
}

// permitQuery asks a context how many permits of a pool it holds: each of its leases adds its own.
type permitQuery struct {
	engine  *lease.Engine
	pool    string
	permits int
	// innermost is the lease that was acquired last, even if it has ended.
	innermost *lease.Lease
}

func (q *permitQuery) count(t *lease.Lease) {
	s := t.Spec().Slots
	if s == nil || t.Engine() != q.engine || s.Pool.Name() != q.pool {
		return
	}
	if q.innermost == nil {
		q.innermost = t
	}
	if t.Err() == nil {
		q.permits += s.Want
	}
}

// wouldSelfDeadlock reports whether the context holds too many permits, so that the rest would
// not suffice, even if no other owner had any.
func (l *Lock) wouldSelfDeadlock(ctx context.Context) bool {
	size, _ := l.spec.Slots.Size()
	has := l.permitsHeldBy(ctx)
	return has > 0 && has+l.spec.Slots.Want > size
}

func (l *Lock) permitsHeldBy(ctx context.Context) int {
	if ctx.Value(anyKey{}) == nil {
		return 0
	}
	q := &permitQuery{engine: l.client.engine, pool: l.spec.Slots.Pool.Name()}
	ctx.Value(q)
	return q.permits
}

// maxSizeAttempts bounds how often SetPermits tries again after a concurrent call.
const maxSizeAttempts = 5

// SetPermits sets how many permits the semaphore has, from 1 to 1024, until it is set again.
// The number counts for all programs, whatever number they were configured with. Of several
// concurrent calls, the last one counts.
//
// After it returns nil, only acquisitions that were already running may get permits beyond that
// number. It takes no permit away: if the number shrinks, holders keep their permits until they
// release them. If it grows, waiters get the new permits at once.
//
// The nodes keep the number in memory, as they keep locks, and without a TTL. It counts as long as
// the nodes that do not know it are fewer than a quorum. A node that lost it, or was down, learns it
// from the next client that knows it and acquires a permit there. If too few nodes know it, each
// program uses its configured number again.
//
// A [*NoQuorumError] means that too few nodes have taken the number, or that others set it meanwhile. It may count or not, and
// repeating the call is harmless. The same holds for the error of a context that ends meanwhile, and
// for ErrClosed. If the caller's clock was ahead, the number of such a call may count even after a later call has
// returned nil: once a node that has it, and did not answer the later call, is back.
func (s *Semaphore) SetPermits(ctx context.Context, permits int) error {
	l := s.lockFor(1)
	if permits < 1 || permits > slots.MaxPermits {
		return invalid(fmt.Sprintf("a semaphore has from 1 to %d permits, not %d", slots.MaxPermits, permits))
	}
	if err := l.beginInspect(ctx); err != nil {
		return err
	}
	defer l.client.endCall()
	_, seen := l.spec.Slots.Size()
	var last *sizeRound
	for range maxSizeAttempts {
		version := decision.NextToken(l.client.engine.Tokens.Now(), seen)
		r, err := l.askSize(ctx, wire.Pool{Name: l.spec.Slots.Pool.Name(), Size: permits, Version: version})
		if err != nil {
			return err
		}
		// A node with a later number would tell it to all clients that ask for permits, also if too few nodes took that one.
		won := r.tally.Result() == decision.Won
		switch {
		case won && r.latest.Version == 0:
			l.spec.Slots.Pool.SetSize(permits, version)
			return nil
		case !won && r.latest.Version <= seen:
			return r.short
		}
		seen, last = r.latest.Version, r
	}
	return last.overtaken(l.client)
}

// errOtherSize is why a node did not take a number of permits.
var errOtherSize = errors.New("another call has set the number of permits meanwhile")

// overtaken is the error of a round that was lost to a later setting.
func (r *sizeRound) overtaken(c *Client) error {
	r.short.Agreed = r.tally.Granted()
	for i := range r.tally.Nodes() {
		if r.tally.Vote(i) == decision.Denied {
			name := c.nodes.Name(i)
			r.short.Nodes = append(r.short.Nodes, NodeError{name, &node.Error{Node: name, Op: wire.Resize.String(), Reason: node.ErrRejected, Err: errOtherSize}})
		}
	}
	return r.short
}

// permits returns how many permits there are, as the nodes know it: the number that was set last,
// or this semaphore's configured number if none was. It fails as [Lock.Inspect] does.
func (s *Semaphore) permits(ctx context.Context) (int, error) {
	l := s.lockFor(1)
	if err := l.beginInspect(ctx); err != nil {
		return 0, err
	}
	defer l.client.endCall()
	r, err := l.askSize(ctx, wire.Pool{Name: l.spec.Slots.Pool.Name()})
	if err != nil {
		return 0, err
	}
	if r.tally.Unknown() > r.tally.Nodes()-l.spec.Need {
		return 0, r.short
	}
	l.spec.Slots.Pool.LearnSize(r.latest.Size, r.latest.Version)
	size, _ := l.spec.Slots.Size()
	return size, nil
}

// sizeRound has the answers of the nodes to a new size.
type sizeRound struct {
	tally  decision.Tally
	latest wire.PoolState
	// short is the error if too few nodes agreed.
	short *NoQuorumError
}

// askSize sends a size to all nodes, and waits for their answers.
func (l *Lock) askSize(ctx context.Context, p wire.Pool) (*sizeRound, error) {
	if p.Version > 0 {
		l.client.enlist(ctx)
	}
	replies, err := l.client.ask(ctx, wire.Op{Kind: wire.Resize, Names: []string{p.Name}, Pool: p, Limits: l.client.cfg.limits()}, nil)
	if err != nil {
		return nil, err
	}
	r := &sizeRound{tally: decision.NewTally(len(replies), l.spec.Need), short: l.noQuorumError(wire.Resize, replies)}
	for i, reply := range replies {
		switch reply.Outcome {
		case wire.Granted:
			r.tally.Record(i, decision.Granted)
		case wire.Denied:
			r.tally.Record(i, decision.Denied)
			if reply.Pool.Version > r.latest.Version {
				r.latest = reply.Pool
			}
		default:
			r.tally.Record(i, decision.Unknown)
		}
	}
	return r, nil
}

// SemaphoreStatus says which owners hold the permits of a semaphore, as its nodes reported it.
type SemaphoreStatus struct {
	// Name is the name of the semaphore.
	Name string
	// Permits is the number of permits that was set last, or this semaphore's configured number if none was.
	Permits int
	// Need is how many nodes must grant a permit.
	Need int
	// Nodes has one entry for each node, in the order of the configuration. The names in its
	// Holders are the keys that the permits' slots have without Config.Prefix.
	Nodes []NodeStatus
}

// Holders returns the slot numbers that each owner has on enough nodes, by its id; see [Lease.Owner] and [Lease.Slots]. They
// can be beyond the number of permits, if that was reduced since.
func (s *SemaphoreStatus) Holders() map[string][]int {
	pool := wire.PoolName(s.Name)
	type claim struct {
		owner string
		slot  int
	}
	nodes, slots := make(map[claim]int), make(map[string][]int)
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			c := claim{h.Owner, wire.SlotOf(pool, h.Name)}
			if nodes[c]++; nodes[c] == s.Need {
				slots[c.owner] = append(slots[c.owner], c.slot)
			}
		}
	}
	for _, numbers := range slots {
		slices.Sort(numbers)
	}
	return slots
}

// Available returns how many permits are free on enough of the nodes that answered.
func (s *SemaphoreStatus) Available() (n int) {
	pool := wire.PoolName(s.Name)
	held := make([]int, s.Permits)
	answered := 0
	for _, nd := range s.Nodes {
		if nd.Err != nil {
			continue
		}
		answered++
		for _, h := range nd.Holders {
			if i := wire.SlotOf(pool, h.Name); i >= 0 && i < len(held) {
				held[i]++
			}
		}
	}
	for _, nodes := range held {
		if answered-nodes >= s.Need {
			n++
		}
	}
	return n
}

// heldSlots returns how many slots may be held. If the number of permits was set, it may have been
// larger before, and the nodes know only the last one.
func (l *Lock) heldSlots(permits int) int {
	if _, version := l.spec.Slots.Size(); version == 0 {
		return permits
	}
	return max(permits, slots.MaxPermits)
}

// Inspect asks every node for the number of permits and their holders. It changes nothing. It takes
// two round trips, and waits for all nodes, each bounded by its timeout. It also finds holders of
// slots beyond a number that [Semaphore.SetPermits] has reduced.
//
// With an error it still returns the answers it has, unless it does not know the number of permits.
// The error is a [*NoQuorumError] if fewer nodes answered than a permit needs, or ctx's error.
func (s *Semaphore) Inspect(ctx context.Context) (*SemaphoreStatus, error) {
	permits, err := s.permits(ctx)
	if err != nil {
		return nil, err
	}
	l := s.lockFor(1)
	names := make([]string, l.heldSlots(permits))
	for i := range names {
		names[i] = wire.SlotName(l.spec.Slots.Pool.Name(), i)
	}
	status, err := l.inspectAll(ctx, wire.Op{Kind: wire.Inspect, Names: names, Limits: l.client.cfg.limits()})
	if status == nil {
		return nil, err
	}
	return &SemaphoreStatus{Name: s.name, Permits: permits, Need: status.Need, Nodes: status.Nodes}, err
}
