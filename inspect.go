package quorumlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Status says which owners hold a lock, as its nodes reported it.
type Status struct {
	// Names are the names of the lock, sorted.
	Names []string
	// Need is how many nodes the rule of the lock needs.
	Need int
	// Nodes has one entry for each node, in the order of the configuration.
	Nodes []NodeStatus
}

// NodeStatus is the answer of one node.
type NodeStatus struct {
	// Node is the node's name.
	Node string
	// Holders has an entry for each held name and its owner, and one for each reader. Free names
	// are left out. Inspect fails with node.ErrRejected if a lock has too many readers for one reply, some ten thousand;
	// ForceRelease removes all of them, and lists the first 8,000.
	Holders []node.Holder
	// Recovering is how long the node still gives no new locks, since it has lost its memory or is
	// new; 0 if it gives them. ForceRelease and ReleaseOwner do not ask for it.
	Recovering time.Duration
	// Unmarked is set if the recovery has not begun yet. It begins with the first attempt to
	// acquire or renew anything, and then lasts for all of Recovering.
	Unmarked bool
	// Latency is the time from sending the operation to the answer.
	Latency time.Duration
	// Err is why there is no answer, or nil. It is a *node.Error, unless ctx ended or the client was
	// closed first.
	Err error
}

// Holder returns the owner that holds every name on enough nodes for the rule, or "" if there is
// none. Of several readers it returns the first by id.
func (s *Status) Holder() string {
	nodes := make(map[string]int)
	for _, n := range s.Nodes {
		names := make(map[string]int)
		for _, h := range n.Holders {
			names[h.Owner]++
			if names[h.Owner] == len(s.Names) {
				nodes[h.Owner]++
			}
		}
	}
	first := ""
	for owner, n := range nodes {
		if n >= s.Need && (first == "" || owner < first) {
			first = owner
		}
	}
	return first
}

// Owners returns all owners that any node reported, sorted.
func (s *Status) Owners() []string {
	var owners []string
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			owners = append(owners, h.Owner)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

func (s *Status) longest() (ttl time.Duration) {
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			ttl = max(ttl, h.TTL)
		}
	}
	return ttl
}

// Inspect asks every node for the holders of the lock. It changes nothing. It waits for all nodes,
// each bounded by its timeout. The error is a [*NoQuorumError] if fewer nodes answered than the rule
// needs. If ctx ends or the client is closed meanwhile, it is ctx's error or ErrClosed. With these
// errors Inspect still returns the answers it has. If it has asked no node, the Status is nil: after an
// [*InvalidError], with a context that has ended, and on a closed client.
func (l *Lock) Inspect(ctx context.Context) (*Status, error) {
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	return l.inspectAll(ctx, wire.Op{Kind: wire.Inspect, Names: l.spec.Names, Limits: l.client.cfg.limits()})
}

// ForceRelease takes the lock from its holder, and keeps that lease from renewing. The lease ends
// with an ErrLost: at once if the client of the holder has subscriptions, for its waiters or for
// a Watch of package election; otherwise at its next renewal, or when its time is up. Until then, both this holder
// and the next one may be at work. So use it only for holders that are known to be dead.
//
// An owner that acquires the lock at the same moment may escape. So may a holder if, before its
// next renewal, a majority of the nodes forgets the forced release.
//
// It returns the holders that were removed, and the same errors as Inspect. The Status is nil if it has
// removed nothing: ctx ended, or the client was closed, while it still looked for the holders. It is
// harmless if the lock is free.
func (l *Lock) ForceRelease(ctx context.Context) (*Status, error) {
	// Nodes that forgot the lock must refuse its owner, too. So every node gets tombstones for all
	// owners that any node reported.
	before, err := l.Inspect(ctx)
	if err != nil && !errors.Is(err, ErrNoQuorum) {
		return nil, err // it has removed nothing yet
	}
	return l.inspectAll(ctx, wire.Op{
		Kind:   wire.ForceRelease,
		Names:  l.spec.Names,
		TTL:    max(l.client.cfg.limits().LongestTTL(), min(before.longest(), maxMaxTTL)),
		Buried: before.Owners(),

		Announce: l.client.cfg.Redisson,
	})
}

// ReleaseOwner takes the lock from one owner, as the writer or one of several readers, and keeps that lease from renewing.
// Others keep the lock. It is for a lock that one process acquired and another one ends: an HTTP handler acquires it,
// detaches the lease, and passes the owner id on with the task, and the worker releases it.
//
// If the lease lives, it ends with an ErrLost as after a ForceRelease; until then, both this holder and the next
// one may be at work. So the process that acquired it must not use it any more.
//
// It returns where the owner was removed, and the same errors as Inspect. [Status.Holder] of that is the owner if
// enough nodes had the lock for it. It is harmless if the owner did not have the lock. A node that does not answer
// keeps the lock until its TTL is over.
func (l *Lock) ReleaseOwner(ctx context.Context, owner string) (*Status, error) {
	if err := l.validate(ctx); err != nil {
		return nil, err
	}
	if owner == "" || owner == node.Readers {
		return nil, invalid(noOwner)
	}
	take, _ := wire.Eviction(owner, l.spec.Names, l.client.cfg.limits().LongestTTL(), wire.Pool{})
	take.Announce = l.client.cfg.Redisson
	return l.inspectAll(ctx, take)
}

const noOwner = "ReleaseOwner needs the owner id of a lease"

// ReleaseOwner takes all permits of one owner from it, and keeps that lease from renewing, as [Lock.ReleaseOwner] does. The
// next waiters get them. Others keep theirs: to take all permits by force, call it for each of [SemaphoreStatus.Holders].
//
// The status has what was removed, and the errors are those of [Semaphore.Inspect], which it calls first. It is harmless if
// the owner has no permit. A permit that only nodes have which did not answer stays until its TTL is over.
func (s *Semaphore) ReleaseOwner(ctx context.Context, owner string) (*SemaphoreStatus, error) {
	if owner == "" || owner == node.Readers {
		return nil, invalid(noOwner)
	}
	status, failed := s.Inspect(ctx)
	if status == nil || failed != nil && !errors.Is(failed, ErrNoQuorum) {
		return nil, failed // it has removed nothing yet
	}
	l := s.lockFor(1)
	var slots []string
	for i := range status.Nodes {
		for _, h := range status.Nodes[i].Holders {
			name := wire.WithPrefix(l.client.cfg.Prefix, h.Name)
			if h.Owner == owner && !slices.Contains(slots, name) {
				slots = append(slots, name)
			}
		}
		status.Nodes[i].Holders = nil
	}
	if len(slots) == 0 {
		return status, failed
	}
	size, version := l.spec.Slots.Size()
	take, wake := wire.Eviction(owner, slots, l.client.cfg.limits().LongestTTL(), wire.Pool{Size: size, Version: version})
	removed, err := l.inspectAll(ctx, take)
	if removed == nil {
		return nil, err
	}
	status.Nodes = removed.Nodes
	if begun := l.beginInspect(ctx); begun == nil {
		_, _ = l.client.ask(ctx, wake, nil)
		l.client.endCall()
	}
	return status, err
}

// inspectAll sends one operation to every node and waits for all answers.
func (l *Lock) inspectAll(ctx context.Context, op wire.Op) (*Status, error) {
	if err := l.beginInspect(ctx); err != nil {
		return nil, err
	}
	defer l.client.endCall()
	replies, err := l.client.ask(ctx, op, nil)
	status := &Status{Names: l.Names(), Need: l.spec.Need}
	for i, r := range replies {
		status.Nodes = append(status.Nodes, NodeStatus{
			Node: l.client.nodes.Name(i), Holders: l.client.shortHolders(r.Holders), Recovering: r.Recovering, Unmarked: r.Unmarked,
			Latency: r.latency, Err: r.Err,
		})
	}
	if short := l.noQuorumError(op.Kind, replies); err == nil && short.Agreed < short.Need {
		err = short
	}
	return status, err
}

// beginInspect checks a call before anything is sent, and registers it. After a nil error,
// Client.endCall must follow.
func (l *Lock) beginInspect(ctx context.Context) error {
	if err := l.validate(ctx); err != nil {
		return err
	}
	return l.client.begin(ctx)
}

type gather struct {
	client *Client
	calls  dispatch.Calls
	done   chan struct{}
	// enough says whether the replies so far will do; nil waits for all.
	enough func(replies []timedReply) bool

	mu      sync.Mutex
	left    int
	over    bool // whether done is closed
	replies []timedReply
}

// timedReply is the reply of one node. Its latency is 0 if it has an error.
type timedReply struct {
	wire.Reply
	latency time.Duration
}

// errNoAnswer is the error of a node that had not answered when the call ended.
var errNoAnswer = errors.New("no answer yet")

// ask sends one operation to every node, and waits for all replies, or for enough. If the context or the
// client ends first, it returns that error, and the replies so far.
func (c *Client) ask(ctx context.Context, op wire.Op, enough func([]timedReply) bool) ([]timedReply, error) {
	n := c.nodes.Len()
	g := &gather{client: c, done: make(chan struct{}), enough: enough, left: n, replies: make([]timedReply, n)}
	g.calls.Aim(n, op)
	for i := range n {
		g.replies[i].Err = errNoAnswer
		g.calls.To(i).To, g.calls.To(i).Urgent = g, true
	}
	c.nodes.Send(&g.calls, c.nodes.All(), func(i int, err error) bool {
		g.Answer(g.calls.To(i), &wire.Reply{Err: err, Unsent: true})
		return true
	})
	var err error
	select {
	case <-g.done:
	case <-ctx.Done():
		err = lease.ContextError(ctx)
	case <-c.quit:
		err = ErrClosed
	}
	if err != nil {
		for i := range n {
			c.nodes.Withdraw(i, g.calls.To(i)) // what is not on the wire would only delay others
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.replies), err
}

// Answer implements dispatch.Receiver.
func (g *gather) Answer(c *dispatch.Call, r *wire.Reply) {
	g.mu.Lock()
	defer g.mu.Unlock()
	reply := timedReply{Reply: *r}
	if r.Err == nil {
		reply.latency = g.client.clock.Now() - c.Sent
	}
	g.replies[c.Node()] = reply
	g.left--
	if !g.over && (g.left == 0 || g.enough != nil && g.enough(g.replies)) {
		g.over = true
		close(g.done)
	}
}

// noQuorumError returns the error for an operation on which too few nodes agreed.
func (l *Lock) noQuorumError(kind wire.Kind, replies []timedReply) *NoQuorumError {
	e := l.client.noQuorum(Operation(kind.String()), l.spec.Need, func(i int) error { return replies[i].Err })
	e.Names = l.Names()
	return e
}

// Ready returns nil if a majority of the nodes would grant locks to this client now: they answer, and have recovered. It is
// for readiness probes, takes no lock, and may be called as often as one likes, also by several goroutines. It returns as soon as
// a majority is ready. Config.NodeTimeoutMax bounds it, besides the time of a connect, and so does ctx. As any attempt at a lock
// does, it makes a node that is new, or has lost its memory, begin its recovery, and compares the client's list of nodes and its
// limits with those of other programs. Until the nodes have noted these, it waits for all nodes, and takes a few times as long. It
// does not compare clocks. It may not see that a node refuses to write, because it lacks memory or replicas.
//
// The error is a [*NoQuorumError] that names each node that is not ready, and why: errors.Is finds node.ErrRecovering,
// node.ErrUnreachable, node.ErrLists and others. If ctx ends first, or the client is closed meanwhile, the error wraps
// that as well. On a closed client it is ErrClosed alone. A holder may well keep its lease while Ready fails, because
// nodes that recover still renew. So a probe of liveness should not use it.
func (c *Client) Ready(ctx context.Context) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	defer c.endCall()
	need := quorum.Majority().Need(c.nodes.Len())
	missing := func(replies []timedReply, listed bool) *NoQuorumError {
		return c.noQuorum("ready", need, func(i int) error { return c.unready(i, &replies[i], listed) })
	}
	mark := func(listed bool) ([]timedReply, error) {
		return c.ask(ctx, wire.Op{Kind: wire.Mark, Limits: c.cfg.limits()}, func(r []timedReply) bool { return missing(r, listed).Agreed >= need })
	}
	replies, err := mark(false)
	e := missing(replies, false)
	if e.Agreed >= need {
		if !c.enlist(ctx) {
			for i := range replies {
				replies[i].Err = errNoAnswer
			}
			err = cmp.Or(lease.ContextError(ctx), ErrClosed)
		}
		if e = missing(replies, true); e.Agreed < need && err == nil { // nodes that were not waited for may be ready
			replies, err = mark(true)
			e = missing(replies, true)
		}
	}
	if e.Agreed >= need {
		return nil
	}
	for i := range replies {
		if replies[i].Err == errNoAnswer { //nolint:errorlint // it is never wrapped
			e.Pending++
		}
	}
	if err != nil {
		return lease.GaveUp(e, err)
	}
	return e
}

// unready returns why node i, which gave this reply to a Mark, would grant no lock; nil if it would. listed is set once it was
// told the client's list.
func (c *Client) unready(i int, r *timedReply, listed bool) error {
	limits := c.cfg.Limits()
	why := &node.Error{Node: c.nodes.Name(i), Op: wire.Mark.String()}
	switch {
	case r.Err != nil:
		return r.Err
	case r.Marker.Left > 0:
		left := r.Marker.Left
		why.Reason, why.Err = node.ErrRecovering, &node.RecoveryError{Left: left, Length: max(limits.Recovery(), left), HadMarker: r.Marker.HadMarker}
		return why
	case listed:
		return c.nodes.Forbids(i)
	default:
		return nil
	}
}
