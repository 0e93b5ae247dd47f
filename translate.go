package quorumlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wait"
)

// translator makes errors, hooks and log lines of the facts that the internal packages report. Most
// of its methods are called with a mutex held: they only queue reports.
type translator struct{ client *Client }

var (
	_ lease.Errors = translator{}
	_ lease.Events = translator{}
	_ wait.Events  = translator{}
)

// namesOf returns the names for people, without the prefix. A semaphore has one name, its own.
func namesOf(s *lease.Spec) []string {
	if s.Slots != nil {
		return []string{s.Slots.Semaphore}
	}
	names := slices.Clone(s.Names)
	if s.Prefix > 0 {
		for i, name := range names {
			names[i] = s.DisplayName(name)
		}
	}
	return names
}

func nodeErrors(facts []lease.NodeError) []NodeError {
	var errs []NodeError
	for _, f := range facts {
		errs = append(errs, NodeError(f))
	}
	return errs
}

func (translator) NoQuorum(s lease.Shortage) error {
	return &NoQuorumError{
		Op: Operation(s.Op), Names: namesOf(s.Spec), Need: s.Need, Agreed: s.Agreed, Total: s.Total, Pending: s.Pending,
		Late: s.Late, Nodes: nodeErrors(s.Nodes),
	}
}

func (translator) Held(h lease.Holder) error {
	return &HeldError{Name: h.Name, Owner: h.Owner, TTL: h.TTL, Nodes: h.Nodes, permits: h.Permits}
}

func (translator) Lost(l lease.Loss) error {
	e := &LostError{
		Names: namesOf(l.Spec), Owner: l.Owner, Cause: LossCause(l.Cause), Reason: l.Reason,
		TakenBy: l.TakenBy, Paused: l.Paused, Nodes: nodeErrors(l.Nodes),
	}
	if l.Cause == lease.Taken {
		e.Reason = "another owner holds the lock on a majority of the nodes: " + DescribeOwner(l.TakenBy)
	}
	return e
}

func (translator) TooManyPermits(asked, size int) error {
	return invalid(tooManyPermits(asked, size))
}

func (t translator) Voted(g *lease.Grant, v lease.Vote) {
	report(&t.client.reporter, t.client.cfg.Hooks.Voted, voteEvent(g, v))
}

func voteEvent(g *lease.Grant, v lease.Vote) VoteEvent {
	return VoteEvent{
		Node: v.Node, Op: Operation(v.Op.String()), Names: namesOf(g.Spec()), Owner: g.Owner(), Vote: Vote(v.Vote.String()), Unsent: v.Unsent,
		At: v.At, Took: v.Took, Err: v.Err,
	}
}

func (t translator) Renewed(g *lease.Grant, remaining time.Duration) {
	if hook := t.client.cfg.Hooks.Renewed; hook != nil {
		report(&t.client.reporter, hook, RenewalEvent{Names: namesOf(g.Spec()), Owner: g.Owner(), Remaining: remaining})
	}
}

func (t translator) RenewalFailed(g *lease.Grant, remaining time.Duration, err error) {
	if hook := t.client.cfg.Hooks.RenewalFailed; hook != nil {
		report(&t.client.reporter, hook, RenewalEvent{Names: namesOf(g.Spec()), Owner: g.Owner(), Remaining: remaining, Err: err})
	}
}

func (t translator) BackingChanged(g *lease.Grant, have, want int) {
	s := g.Spec()
	report(&t.client.reporter, t.client.cfg.Hooks.BackingChanged, BackingEvent{
		Names: namesOf(s), Owner: g.Owner(), Have: have, Want: want, Need: s.Need,
	})
}

// Ended tells the log only of ends that the program did not ask for.
func (t translator) Ended(l *lease.Lease, held time.Duration, handedOver bool, cause error) {
	c, g := t.client, l.Grant()
	switch {
	case errors.Is(cause, ErrReleased), errors.Is(cause, ErrClosed):
	case errors.Is(cause, ErrLeaked):
		c.warn("quorumlock: a lease was dropped without a Release: it is released now", "names", namesOf(g.Spec()), "owner", g.Owner(), "held", held)
	default:
		c.warn("quorumlock: lease ended", "names", namesOf(g.Spec()), "owner", g.Owner(), "held", held, "err", cause)
	}
	if hook := c.cfg.Hooks.Ended; hook != nil {
		report(&c.reporter, hook, EndedEvent{
			Names: namesOf(g.Spec()), Owner: g.Owner(), Token: l.Token(), Held: held, HandedOver: handedOver, Err: cause,
		})
	}
}

func (t translator) LossFound(l *lease.Lease, err error) {
	c, g := t.client, l.Grant()
	c.warn("quorumlock: a lease was lost before its release", "names", namesOf(g.Spec()), "owner", g.Owner(), "err", err)
	hook := c.cfg.Hooks.LossFound
	var lost *LostError
	if errors.As(err, &lost) && hook != nil {
		report(&c.reporter, hook, LossFoundEvent{Names: namesOf(g.Spec()), Owner: g.Owner(), Token: l.Token(), Err: lost})
	}
}

func (t translator) AttemptFailed(s *lease.Spec, attempt int, err error) {
	if hook := t.client.cfg.Hooks.AttemptFailed; hook != nil {
		report(&t.client.reporter, hook, AttemptFailedEvent{Names: namesOf(s), Attempt: attempt, Err: err})
	}
}

func (t translator) LatchCounted(i int, name string) { t.client.latches.Counted(i, name) }

func (t translator) SubscriptionsChanged() { t.client.latches.SubscriptionsChanged() }

func (t translator) CannotFollow(node string, err error) {
	t.client.warn("quorumlock: cannot subscribe to Redisson's releases: waiters poll once a second", "node", node, "err", err)
}

// trace records one acquiring call for the hook Acquisition.
//
// A call returns before the slower nodes have voted, and the trace ends when all have.
type trace struct {
	client *Client
	began  time.Duration

	mu    sync.Mutex
	event AcquisitionEvent
	// open counts the missing votes, and the call itself until it returns.
	open int
}

// maxTraceVotes bounds the votes that a trace keeps, as a caller may wait for long.
const maxTraceVotes = 128

// newTrace starts the trace of a call.
func (l *Lock) newTrace(ctx context.Context) *trace {
	c := l.client.clock
	t := &trace{client: l.client, began: c.Now(), open: 1}
	t.event = AcquisitionEvent{Context: ctx, Names: l.Names(), Reads: l.spec.Reads, Began: c.Wall()}
	return t
}

// Attempted records that an attempt has ended.
func (t *trace) Attempted(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.event.Attempts++
	t.event.Asking += took
}

func (t *trace) onReturn(r wait.Result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.event
	e.Took, e.Err = t.client.clock.Now()-t.began, err
	if got := r.Lease; got != nil {
		e.Owner, e.Token, e.HandedOver = got.Grant().Owner(), got.Token(), r.HandedOver
		e.Took = got.GrantedAt() - t.began
	}
	t.done()
}

// Asked records that a node is asked to vote.
func (t *trace) Asked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open++
}

// Voted records the vote of a node.
func (t *trace) Voted(g *lease.Grant, v lease.Vote) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.event.Votes) == maxTraceVotes {
		t.event.Votes = slices.Delete(t.event.Votes, 0, 1)
		t.event.Dropped++
	}
	t.event.Votes = append(t.event.Votes, voteEvent(g, v))
	t.done()
}

// done counts one vote or call less, and tells the hook when none is left. Requires t.mu.
func (t *trace) done() {
	if t.open--; t.open == 0 {
		report(&t.client.reporter, t.client.cfg.Hooks.Acquisition, t.event)
	}
}

func (t translator) NodeDown(name string, err error) {
	c := t.client
	c.warn("quorumlock: node failed: it gets only probes until one succeeds", "node", name, "err", err)
	if hook := c.cfg.Hooks.NodeDown; hook != nil {
		c.reporter.enqueue(func() { hook(name, err) })
	}
}

func (t translator) NodeUp(name string) {
	c := t.client
	c.info("quorumlock: node is in use again: a probe succeeded", "node", name)
	report(&c.reporter, c.cfg.Hooks.NodeUp, name)
}

func (t translator) NodeRecovering(name string, since, until time.Time, hadMarker bool) {
	c := t.client
	c.warn("quorumlock: node recovers: it may have forgotten locks; holders keep theirs, and it grants no new ones until the recovery ends",
		"node", name, "since", since, "until", until, "had_marker", hadMarker)
	report(&c.reporter, c.cfg.Hooks.NodeRecovering, NodeRecoveringEvent{Node: name, Since: since, Until: until, HadMarker: hadMarker})
}

func (t translator) NodeRecovered(name string) {
	t.client.info("quorumlock: node has recovered: it grants new locks again", "node", name)
}

func (t translator) NodeRefuses(name string, err error) {
	t.client.warn("quorumlock: node refuses this client", "node", name, "err", err)
}

func (t translator) NodeServes(name string) {
	t.client.info("quorumlock: node serves this client again", "node", name)
}

func (t translator) MayEvict(name, settings string) {
	t.client.warn("quorumlock: the server of a node may evict locks, which AllowEviction permits: two owners can hold one lock", "node", name, "settings", settings)
}

func (t translator) LossesUnseen(name, reason string) {
	t.client.warn("quorumlock: the server of a node cannot tell that it has lost its memory, which AllowUnseenLosses permits: two owners can hold one lock", "node", name, "reason", reason)
}

func (t translator) SameServer(name, other string) {
	t.client.warn("quorumlock: two nodes are one server: only one of them votes", "node", name, "same_as", other)
}

func (t translator) CapacityFreed() {
	t.client.engine.OnCapacity()
	t.client.queues.OnCapacity()
}
