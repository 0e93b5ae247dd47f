package latch

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// answers are what the nodes have said in one round. The mutex of the round guards it.
type answers struct {
	env  *Env
	name string
	last []decision.LatchAnswer
	of   []nodeState
	// granted are the nodes that did as asked.
	granted decision.Set
	// setAgain are the nodes that confirmed a deletion, and yet had the latch set right after it: its
	// generation had begun there before.
	setAgain decision.Set
}

// nodeState is the state of one node in a round, apart from its answer.
type nodeState struct {
	// err is why the node has no answer.
	err error
	// memory is since when the node remembers everything, by its marker. With born, it identifies one
	// memory of the node.
	memory, born int64
	// lost is when the node lost its memory at the latest, by the clock of the client.
	lost time.Duration
}

func newAnswers(env *Env, name string) answers {
	n := env.Nodes.Len()
	return answers{env: env, name: name, last: make([]decision.LatchAnswer, n), of: make([]nodeState, n)}
}

// clone returns a copy that later answers do not change.
func (as *answers) clone() answers {
	c := *as
	c.last, c.of = slices.Clone(as.last), slices.Clone(as.of)
	return c
}

// record records an answer. If a later operation on a node fails, its earlier answer stays.
func (as *answers) record(c *dispatch.Call, reply *wire.Reply) {
	i, s, limits := c.Node(), reply.Latch, as.env.Limits
	n := &as.of[i]
	if reply.Err != nil || s == nil {
		n.err = reply.Err
		return
	}
	as.env.Tokens.Observe(max(s.Generation, s.Since, s.Last), as.name)
	a := decision.LatchAnswer{
		Told: true, Generation: s.Generation, Count: s.Count, Since: s.Since,
		Refilled: s.Whole, Recovering: reply.Recovering > 0, Size: s.Size,
	}
	if s.Lost > 0 {
		a.Memory = uint64(s.Lost)
		n.lost = as.env.Clock.Now() - (limits.Recovery() - reply.Recovering)
	}
	if before := &as.last[i]; before.Generation == a.Generation && n.memory == s.Lost && n.born == s.Born {
		a.IDs = before.IDs
	}
	granted := reply.Outcome == wire.Granted
	switch {
	case c.Op.Latch.List:
		a.IDs = s.IDs
	case granted:
		a.IDs = decision.UnionOfIDs(a.IDs, c.Op.Latch.IDs)
	}
	if granted {
		as.granted = as.granted.With(i)
	}
	if granted && s.Count > 0 && !reply.Repeated {
		as.setAgain = as.setAgain.With(i)
	}
	n.memory, n.born, n.err = s.Lost, s.Born, nil
	as.last[i] = a
}

// latest is the latest generation that a node has reported.
func (as *answers) latest() (generation uint64) {
	for _, a := range as.last {
		generation = max(generation, a.Generation)
	}
	return generation
}

// merged is the combined answers, with ids that the caller knows.
func (as *answers) merged(need int, known []string) decision.LatchView {
	return decision.ViewLatch(as.last, need, known, as.skew())
}

// skew is how far clocks may differ, in the unit of tokens, and how much later than a loss a prompt
// round may end that began before it.
func (as *answers) skew() uint64 {
	limits := as.env.Limits
	return uint64((limits.MaxClockSkew + refillAfter(limits)).Microseconds())
}

// kept reports whether node i has kept its memory since its answer. A deletion since is no loss.
func (as *answers) kept(i int, s *wire.LatchState) bool {
	a, n := &as.last[i], &as.of[i]
	same := s.Generation == a.Generation && s.Born == n.born && s.Count == a.Count
	return s.Lost == n.memory && (same || s.Generation > a.Generation)
}

// deletedOn returns the nodes that hold the deletion with this token. A node that confirmed it in an
// earlier attempt need not answer again. But if it does, its answer counts.
func (as *answers) deletedOn(token uint64) (nodes decision.Set) {
	for i := range as.granted.All() {
		if a := &as.last[i]; !a.Told || a.Generation >= token {
			nodes = nodes.With(i)
		}
	}
	return nodes
}

// refuses reports whether a node refuses the token of a deletion. Only then is another token proposed:
// it would also delete a latch that was set after this one took effect.
func (as *answers) refuses() bool {
	for i, a := range as.last {
		if a.Told && !as.granted.Has(i) || errors.Is(as.of[i].err, node.ErrClock) {
			return true
		}
	}
	return false
}

// refusesForGood reports whether the node rejects the call until its configuration or its data changes.
func (n *nodeState) refusesForGood() bool {
	var nodeErr *node.Error
	return errors.As(n.err, &nodeErr) && nodeErr.Permanent()
}

// hopeless reports whether so many nodes reject the call permanently that no attempt with this need can
// succeed.
func (as *answers) hopeless(need int, token uint64) bool {
	permanent := 0
	for i := range as.of {
		if n := &as.of[i]; n.refusesForGood() || errors.Is(n.err, node.ErrClock) && as.env.Tokens.IsCurrent(token) {
			permanent++
		}
	}
	return permanent > len(as.of)-need
}

// errForgotten is why the answer of a node did not count.
var errForgotten = errors.New("the node lost its memory after the latch was set, and may lack count-downs")

// forgotten is the error of node i for errForgotten.
func (as *answers) forgotten(i int) error {
	return &node.Error{Node: as.env.Nodes.Name(i), Op: wire.Latch.String(), Reason: node.ErrRejected, Err: errForgotten}
}

// shortage says why too few nodes agree with a view. again are the errors of nodes that were asked once
// more, or nil.
func (as *answers) shortage(v *decision.LatchView, need int, again []error) *Shortage {
	s := &Shortage{Need: need, Total: len(as.last)}
	for i, a := range as.last {
		err := as.of[i].err
		if again != nil && again[i] != nil {
			err = again[i]
		}
		switch {
		case err != nil:
		case !a.Told:
			s.Pending++
			continue
		case !v.Member(a, as.skew()):
			err = as.forgotten(i)
		default:
			s.Agreed++
			continue
		}
		s.Refusals = append(s.Refusals, Refusal{Node: i, Err: err})
	}
	return s
}
