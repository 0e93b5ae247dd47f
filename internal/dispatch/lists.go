package dispatch

import (
	"crypto/rand"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Programs whose lists of nodes differ could both get a lock, each from a majority of its own. So each node keeps the lists
// in use, and notes a further one only from a client that has compared it with all of them.
//
// The sender of a node puts the client's list ahead of the first operation that takes or renews something, in the same
// exchange, and again when that was a recovery ago. A majority may come together without the node that knows of
// another list. So an attempt is won only when each node that answers has noted the list ([Nodes.Enlist]), and one
// refusal counts for all nodes. Renewals, reads and undos always pass.

// A node keeps a list for listLife recoveries, and an attempt trusts that for listTrust. A lease lasts for less than
// a recovery, so the nodes know the list for as long as each lease that was granted under it.
const (
	listLife  = 3
	listTrust = 2
)

// patiencePart is the part of the longest timeout for which [Nodes.Enlist] waits for the rest when a majority has answered.
const patiencePart = 4

// List says how the list of a client's nodes is told to nodes.
type List struct {
	// Key is the key of the lists on nodes. Nothing is told if it is empty.
	Key string
	// Holder names the client to people.
	Holder string
}

// lists is what the senders of a client know together.
type lists struct {
	// refusal is why a node refuses the client's list, or nil. While it is set, nothing that takes something is sent.
	refusal atomic.Pointer[node.ListsError]
	// until: each node that answers has noted the list, for attempts that begin before.
	until atomic.Int64

	// returns counts how often a node that was down has come back.
	returns atomic.Int64

	mu sync.Mutex
	// own is the list, sorted, with the ids that are known. It is replaced, never changed.
	own []wire.ListedNode
	// changed is closed when a node has answered, and when until has become 0.
	changed chan struct{}
}

// listing is what one node has said of the client's list.
type listing struct {
	// told is the list that the node has noted, and at when it was sent. heard is set once the node has answered.
	told  []wire.ListedNode
	at    time.Duration
	heard bool
	// err is why the node has not noted it. A refusal counts until the other list has run out, even if the node is down.
	// Once it is stale, the node must be asked anew.
	err   error
	until time.Duration
	stale bool
	// agreed are other lists that the node has.
	agreed []wire.List
	// asked is set while an answer is to come. None came at silentAt, when the returns were silent; 0 if it is not silent.
	asked    bool
	silent   int64
	silentAt time.Duration
}

func newLists(nodes []node.Node) *lists {
	names := make([]string, len(nodes))
	for i, nd := range nodes {
		names[i] = nd.Name()
	}
	return &lists{own: wire.SortedList(names), changed: make(chan struct{})}
}

// list returns the client's list, and a channel that is closed at the next change.
func (l *lists) list() (own []wire.ListedNode, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own, l.changed
}

// announce wakes those who wait for answers. With doubt, all attempts must ask.
func (l *lists) announce(doubt bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if doubt {
		l.until.Store(0)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// learn notes the id of a node, and returns the list.
func (l *lists) learn(address, id string) []wire.ListedNode {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := placeOf(l.own, address); l.own[i].ID != id {
		l.own = slices.Clone(l.own)
		l.own[i].ID = id
		l.until.Store(0)
	}
	return l.own
}

func placeOf(list []wire.ListedNode, address string) int {
	return slices.IndexFunc(list, func(n wire.ListedNode) bool { return n.Address == address })
}

// takes reports whether an operation asks for a right that needs a list which agrees with others.
func takes(op *wire.Op) bool {
	switch op.Kind {
	case wire.Acquire, wire.Unlatch:
		return true
	case wire.Latch:
		return op.Latch.Count > 0 || len(op.Latch.IDs) > 0
	case wire.Resize:
		return op.Pool.Version > 0
	default:
		return false
	}
}

// address is the sender's node as it stands in the list.
func (s *sender) address() string { return wire.Listable(s.node.Name()) }

// enlistCallLocked makes the call that tells the node the list.
func (s *sender) enlistCallLocked() *Call {
	s.listing.asked = true
	own, _ := s.nodes.lists.list()
	env := &s.nodes.env
	op := &wire.ListOp{Key: env.List.Key, Own: own, Holder: env.List.Holder, NewID: own[placeOf(own, s.address())].ID}
	if op.NewID == "" {
		op.NewID = rand.Text() // the list is noted once the client knows the id
	} else {
		op.Life = listLife * env.Recovery
	}
	for _, l := range s.listing.agreed {
		if agree(own, l.Nodes) {
			op.Agreed = append(op.Agreed, l)
		}
	}
	c := &Call{Op: &wire.Op{Kind: wire.Enlist, List: op}, To: told{s}}
	c.setNode(s.index)
	return c
}

// told is the receiver of the answers of one node to the list.
type told struct{ sender *sender }

// Answer implements Receiver.
func (t told) Answer(_ *Call, r *wire.Reply) { t.sender.answeredList(r.List != nil || isAnswer(r.Err)) }

// answeredList records that the node was asked, and whether it has answered.
func (s *sender) answeredList(answered bool) {
	s.mu.Lock()
	s.listing.asked = false
	if !answered {
		s.silenceLocked()
	}
	s.mu.Unlock()
	s.nodes.lists.announce(false)
}

// silence makes the client wait for the node no more if it was asked and has not answered.
func (s *sender) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing.asked {
		s.silenceLocked()
	}
}

// silenceLocked records that the node was asked and has not answered.
func (s *sender) silenceLocked() {
	s.listing.silent, s.listing.silentAt = s.nodes.lists.returns.Load()+1, s.nodes.env.Clock.Now()
}

// isSilentLocked reports whether the node was asked lately and did not answer. If another node has come back since,
// this one may have too.
func (s *sender) isSilentLocked(now time.Duration) bool {
	l := &s.listing
	return l.silent == s.nodes.lists.returns.Load()+1 && now-l.silentAt < listTrust*s.nodes.env.Recovery
}

func agree(a, b []wire.ListedNode) bool {
	return decision.ListsAgree(len(a), len(b), wire.CommonNodes(a, b))
}

// enlistLocked puts the list ahead of a batch, if that needs it and the node has not been told lately.
func (s *sender) enlistLocked(f *flight, now time.Duration) {
	l, env := &s.listing, &s.nodes.env
	needs := func(c *Call) bool { return takes(c.Op) || c.Op.Kind == wire.Renew }
	if env.List.Key == "" || l.asked || !slices.ContainsFunc(f.batch, needs) {
		return
	}
	if l.told != nil && l.err == nil && now-l.at < env.Recovery && s.nodes.lists.until.Load() > 0 {
		return // the usual case
	}
	if own, _ := s.nodes.lists.list(); l.err != nil || now-l.at >= env.Recovery || !slices.Equal(l.told, own) {
		f.batch = slices.Insert(f.batch, 0, s.enlistCallLocked())
	}
}

// enlistedLocked records the answer to the list.
func (s *sender) enlistedLocked(op *wire.ListOp, sent, now time.Duration, r *wire.Reply) {
	l := &s.listing
	switch {
	case r.List == nil && !isAnswer(r.Err):
		return
	case r.List == nil:
		l.err, l.until, l.stale = r.Err, now, false
		return
	}
	if l.silent > 0 {
		s.nodes.lists.announce(true)
	}
	l.heard, l.silent, l.err, l.stale = true, 0, nil, false
	own := s.nodes.lists.learn(s.address(), r.List.ID)
	for _, other := range r.List.Others {
		if agree(own, other.Nodes) {
			l.agreed = append(l.agreed, other)
			continue
		}
		cause := &node.ListsError{Own: wire.Addresses(own), Other: wire.Addresses(other.Nodes), Holder: other.Holder, Left: other.Left}
		l.err = &node.Error{Node: s.node.Name(), Op: wire.Enlist.String(), Reason: node.ErrLists, Err: cause}
		l.until = max(l.until, now+other.Left)
		s.nodes.lists.refusal.Store(cause)
		s.nodes.lists.announce(true)
		s.refusesLocked(l.err)
	}
	if op.Life > 0 && len(r.List.Others) == 0 {
		l.told, l.at = op.Own, sent
	}
}

// unlistedLocked returns the error of an operation on a node that has not noted the list although it was told, or nil.
func (s *sender) unlistedLocked(op *wire.Op) error {
	var reason *node.Error
	if !errors.As(s.listing.err, &reason) || !takes(op) {
		return nil
	}
	return &node.Error{Node: s.node.Name(), Op: op.Kind.String(), Reason: reason.Reason, Err: reason.Err}
}

// forgottenLocked records that the node may have forgotten the list and its own id. It tells them at once, before another
// client draws another id. Requires a goroutine that sends.
func (s *sender) forgottenLocked() {
	if !s.listing.heard {
		return
	}
	s.listing = listing{asked: s.listing.asked, heard: true}
	s.nodes.lists.announce(true)
	if !s.listing.asked {
		c := s.enlistCallLocked()
		s.queue.calls, c.place = append(s.queue.calls, c), queued
	}
}

// returnedLocked records that the node answers again, after it was down.
func (s *sender) returnedLocked() {
	s.listing.silent = 0
	s.nodes.lists.returns.Add(1)
	s.nodes.lists.announce(true)
}

// Refused reports whether a node has refused the client's list: see [Nodes.Enlist].
func (n *Nodes) Refused() bool { return n.lists.refusal.Load() != nil }

// Listed reports whether each node that answers has noted the client's list, for an attempt that began then.
func (n *Nodes) Listed(began time.Duration) bool {
	return n.env.List.Key == "" || began < time.Duration(n.lists.until.Load())
}

// Enlist waits until each node that answers has noted the client's list or refused it. After a refusal, Submit refuses
// all operations that take something, with the same error. Enlist asks nodes that have refused anew if again is set.
//
// Once a majority has answered, Enlist waits for the others for a part of the timeout, so a hung minority does not hold it
// up for long. It returns false early when ctx or closing ends.
func (n *Nodes) Enlist(began time.Duration, again bool, ctx, closing <-chan struct{}) (done bool) {
	patience := n.env.TimeoutMax / patiencePart
	impatient := make(chan struct{}, 1)
	timer := n.env.Clock.AfterFunc(patience, func() { impatient <- struct{}{} })
	defer timer.Stop()
	for !n.Listed(began) || n.Refused() {
		own, changed := n.lists.list()
		late, asks, enough, done := n.askLists(own, changed, again)
		again = false
		switch {
		case done:
			return true
		case asks || !enough:
			timer.Reset(patience)
		}
		select {
		case <-changed:
		case <-impatient:
			for _, s := range late {
				s.silence()
			}
		case <-ctx:
			return false
		case <-closing:
			return false
		}
	}
	return true
}

// EnlistSoon begins an Enlist, and does not wait for it.
func (n *Nodes) EnlistSoon(closing <-chan struct{}) {
	n.goroutines.Go(func() error {
		n.Enlist(n.env.Clock.Now(), false, nil, closing)
		return nil
	})
}

// askLists tells the list to the nodes that have not noted it. It returns the nodes that are late, whether it has asked
// one, whether a majority has answered, and whether there is nothing to wait for. The list is told with the ids of all
// nodes that answer, so the answers that bring ids come first.
func (n *Nodes) askLists(own []wire.ListedNode, changed <-chan struct{}, again bool) (late []*sender, asks, enough, done bool) {
	var refusal *node.ListsError
	var untold, outdated []*sender
	now := n.env.Clock.Now()
	heard, until := 0, time.Duration(math.MaxInt64)
	for _, s := range n.senders {
		s.mu.Lock()
		l := &s.listing
		l.stale = l.stale || again && l.err != nil
		if l.heard || l.err != nil {
			heard++
		}
		lost := s.closed || s.overdue > 0 || s.isSilentLocked(now)
		switch {
		case l.err != nil && (lost || s.health.down):
			if now <= l.until {
				errors.As(l.err, &refusal)
			}
		case l.err != nil && !l.stale:
			errors.As(l.err, &refusal)
		case l.err == nil && slices.Equal(l.told, own) && now-l.at < listTrust*n.env.Recovery:
			until = min(until, l.at+listTrust*n.env.Recovery)
		case lost:
		case l.asked:
			late = append(late, s)
		case l.heard && !s.health.down:
			outdated = append(outdated, s)
		default:
			late, untold = append(late, s), append(untold, s)
		}
		s.mu.Unlock()
	}
	if len(late) == 0 {
		untold = outdated
	}
	for _, s := range untold {
		s.enlist()
	}
	enough = heard >= quorum.Majority().Need(len(n.senders))
	if refusal == nil && len(late)+len(outdated) > 0 {
		return append(late, outdated...), len(untold) > 0, enough, false
	}
	if !enough {
		until = 0
	}
	return nil, false, enough, n.lists.settle(refusal, until, changed)
}

// enlist tells the node the list.
func (s *sender) enlist() {
	s.mu.Lock()
	c := s.enlistCallLocked()
	s.mu.Unlock()
	c.Urgent = true // nodes that were down together may have come back together
	if s.submit(c) != nil {
		s.answeredList(false)
	}
}

// settle sets whether a node refuses the list, and until when attempts can rely on the answers, unless there was another
// one meanwhile.
func (l *lists) settle(refusal *node.ListsError, until time.Duration, changed <-chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != changed {
		return false
	}
	l.refusal.Store(refusal)
	if refusal == nil {
		l.until.Store(int64(until))
	}
	return true
}
