package dispatch

import (
	"cmp"
	"crypto/rand"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Programs whose lists of nodes differ could both get a lock, each from a majority of its own. So each node keeps the lists
// in use, and notes a further one only from a client that has compared it with all of them.
//
// A client asks all nodes, in rounds. The first round brings the lists in use and the ids of the nodes; if all lists agree with
// the client's, the next round makes the nodes note that. So a list that is refused is noted nowhere, and keeps out nobody. The
// first operation that takes something waits for these rounds ([Nodes.Enlist]): the node that knows of another list may be
// outside the majority that grants. Later rounds run beside the operations. One refusal counts for all nodes: nothing is taken
// or renewed until the other list has run out.

// A node keeps a list for listLife recoveries, and the client trusts that for listTrust, but asks again after one. A lease lasts
// for less than a recovery, so the nodes know the list for as long as each lease that was granted under it.
const (
	listLife  = 3
	listTrust = 2
)

// mostRounds bounds the rounds in a row: a faulty node may bring news in each. While a majority has news, it is rather that many
// programs begin together, so mostCrowded bounds these rounds.
const (
	mostRounds  = 5
	mostCrowded = 40
)

// listOf returns the list of the senders' nodes.
func listOf(senders []*sender) wire.List {
	var names []string
	for _, s := range senders {
		names = append(names, s.node.Name())
	}
	list := wire.NewList(names)
	for _, s := range senders {
		s.listing.place = slices.Index(list.Addresses, wire.Listable(s.node.Name()))
	}
	return list
}

// Enlist makes sure that each node that answers has noted the client's list, for an operation on need nodes that begins now. If
// one refuses it, Submit refuses all operations that take or renew something, with the same error. Once a majority has answered,
// Enlist waits for the others for a node's timeout. It returns when the operation begins, or false if ctx or closing ends before.
func (n *Nodes) Enlist(now time.Duration, need int, ctx, closing <-chan struct{}) (begins time.Duration, ok bool) {
	if n.isListed(now) && (int(n.lists.knowing.Load()) >= need || n.env.List.Key == "") {
		return now, true
	}
	select {
	case <-n.startRounds():
		return n.env.Clock.Now(), true
	case <-ctx:
	case <-closing:
	}
	return 0, false
}

// KeepListed is Enlist for those who do not wait.
func (n *Nodes) KeepListed(now time.Duration) {
	if !n.isListed(now) {
		n.startRounds()
	}
}

// isListed reports whether each node that answers has noted the list. It tells the list again in time.
func (n *Nodes) isListed(now time.Duration) bool {
	until := time.Duration(n.lists.until.Load())
	if now < until && now >= until-n.env.Recovery {
		n.startRounds()
	}
	return now < until || n.env.List.Key == ""
}

// Refusal is why a node refuses the client's list, or nil.
func (n *Nodes) Refusal() *node.Error { return n.lists.refusal.Load() }

// Forbids is why nothing may be acquired from node i because of the list, or nil.
func (n *Nodes) Forbids(i int) error {
	s := n.senders[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	reason, err := s.listing.forbids(&Call{Op: &wire.Op{Kind: wire.Acquire}}, n.lists.refusal.Load())
	if reason == nil || n.env.List.Key == "" {
		return nil
	}
	return &node.Error{Node: s.node.Name(), Op: wire.Enlist.String(), Reason: reason, Err: err}
}

// startRounds starts rounds, unless some are under way or the list is refused. It returns a channel that is closed when they
// have ended.
func (n *Nodes) startRounds() <-chan struct{} {
	l := &n.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && n.env.Clock.Now() >= l.refusedUntil {
		l.running, l.again, l.ended = true, false, make(chan struct{})
		l.refusal.Store(nil) // it has run out
		n.goroutines.Go(n.tellList)
	}
	return l.ended
}

// tellList is a goroutine: it asks and tells in rounds, until all is said.
func (n *Nodes) tellList() error {
	l, majority := &n.lists, quorum.Majority().Need(len(n.senders))
	until := l.until.Load()
	r := listRound{nodes: n, note: int64(n.env.Clock.Now()) < until} // then the nodes know the list, so none speaks against it
	if !r.note {
		l.until.Store(0)
	}
	knows := false
	for news, most, rounds := true, mostRounds, 0; (news || !r.note) && rounds < most; rounds++ {
		if rounds > 0 {
			// After an outage all nodes may be back, also those that are not to be probed yet.
			r.note, r.urgent = true, until == 0
		}
		l.mu.Lock()
		losses := l.losses
		l.mu.Unlock()
		began := n.env.Clock.Now()
		var heard, agrees int
		heard, agrees, news = r.run(majority)
		refused := r.refused()
		knows = !refused && (heard < majority || r.note && agrees >= majority)
		if refused || heard < majority {
			break
		}
		l.mu.Lock()
		news = news || l.losses != losses
		if most = mostRounds; agrees < majority {
			most = mostCrowded
		}
		if r.note && agrees >= majority && l.losses == losses {
			l.until.Store(int64(began + listTrust*n.env.Recovery))
		}
		l.mu.Unlock()
	}
	for _, s := range n.senders {
		s.mu.Lock()
		s.listing.settle(l, knows, n.env.Clock.Now())
		s.mu.Unlock()
	}
	l.mu.Lock()
	l.running = false
	close(l.ended)
	again := l.again && l.until.Load() == 0
	l.mu.Unlock()
	if again {
		n.startRounds()
	}
	return nil
}

// listRound is a round of questions to all nodes.
type listRound struct {
	nodes *Nodes
	// note makes the nodes note the list, urgent asks nodes that are down too.
	note, urgent bool
	// answers are those of this round and of the rounds before.
	answers []listAnswer
}

// listAnswer is what one node says of the list.
type listAnswer struct {
	from *sender
	list *wire.ListReply
	err  error
}

// run returns how many nodes have answered, how many of these know no list that is new to the client, and whether there is any
// news. Once a majority has answered, it waits for the others for a node's timeout.
func (r *listRound) run(majority int) (heard, agrees int, news bool) {
	env, own := &r.nodes.env, r.nodes.lists.own
	own.Holder = env.List.Holder
	if r.note {
		own.Left = listLife * env.Recovery
	}
	var agreed []wire.List
	for _, a := range r.answers {
		agreed = append(agreed, a.list.Others...)
	}
	answers, left := make(chan listAnswer, len(r.nodes.senders)), 0
	for _, s := range r.nodes.senders {
		to := receiver(func(reply *wire.Reply) { answers <- listAnswer{s, reply.List, reply.Err} })
		op := &wire.ListOp{Key: env.List.Key, Own: own, Agreed: agreed, NewID: cmp.Or(own.IDs[s.listing.place], rand.Text())}
		s.mu.Lock()
		s.listing.told = false // and if it does not answer in time, it is asked again when it does
		s.mu.Unlock()
		if s.submit(&Call{Op: &wire.Op{Kind: wire.Enlist, List: op}, To: to, Urgent: r.urgent}) == nil {
			left++
		}
	}
	over := make(chan struct{})
	defer env.Clock.AfterFunc(env.TimeoutMax, func() { close(over) }).Stop()
	for wait := over; left > 0 && (wait != nil || heard < majority); {
		select {
		case <-wait:
			wait = nil
		case a := <-answers:
			left--
			a.from.mu.Lock()
			a.from.listing.heard(a.list != nil && (!r.note || len(a.list.Others) == 0), a.err, env.Clock.Now())
			a.from.mu.Unlock()
			if a.list == nil {
				continue
			}
			heard++
			r.answers = append(r.answers, a)
			if renamed := r.nodes.lists.learn(a.from.listing.place, a.list.ID); renamed || len(a.list.Others) > 0 {
				news = true
			}
			if len(a.list.Others) == 0 {
				agrees++
			}
		}
	}
	return heard, agrees, news
}

// refused reports whether a list in use does not agree with the client's, or its terms do not, and then makes that known.
func (r *listRound) refused() (refused bool) {
	l := &r.nodes.lists
	for _, a := range r.answers {
		for _, other := range a.list.Others {
			reason, cause := disagreement(&l.own, &other)
			if reason == nil {
				continue
			}
			refused = true
			refusal := &node.Error{Node: a.from.node.Name(), Op: wire.Enlist.String(), Reason: reason, Err: cause}
			r.refuse(refusal, other.Left)
			a.from.mu.Lock()
			a.from.server.refuses(refusal)
			a.from.mu.Unlock()
		}
	}
	return refused
}

// disagreement says why two programs may not both use the nodes, or returns nil.
func disagreement(own, other *wire.List) (reason, cause error) {
	terms := &own.Terms
	settings := &node.SettingsError{Own: terms.Limits, Other: other.Terms.Limits, Holder: other.Holder, Left: other.Left}
	switch {
	case !terms.Speak(other.Terms):
		settings.Protocol, settings.OtherProtocol = terms.Protocol, other.Terms.Protocol
		return node.ErrSettings, settings
	case !terms.Limits.Allow(other.Terms.Limits):
		return node.ErrSettings, settings
	}
	common, onlyOwn, onlyOther := wire.CommonNodes(*own, *other)
	if decision.ListsAgree(len(own.IDs), len(other.IDs), common) {
		return nil, nil
	}
	return node.ErrLists, &node.ListsError{
		Own: own.Addresses, Other: other.Addresses, OnlyOwn: onlyOwn, OnlyOther: onlyOther, Holder: other.Holder, Left: other.Left,
	}
}

// refuse ends what the client may do with its list, until the other list runs out.
func (r *listRound) refuse(refusal *node.Error, left time.Duration) {
	l, env := &r.nodes.lists, &r.nodes.env
	// It is no longer than any list counts, also if the clock of a node was set back.
	left = min(left, listLife*env.Recovery)
	if r.note {
		// Two programs that began together refuse each other. They must not begin again together.
		left += time.Duration(env.Jitter() * float64(env.Recovery))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusedUntil = max(l.refusedUntil, env.Clock.Now()+left)
	l.refusal.Store(refusal)
	l.until.Store(0)
}
