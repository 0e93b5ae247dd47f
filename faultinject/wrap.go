package faultinject

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Node is a node.Node with rules in front of it, which inject faults on the way to the inner node. Without rules it
// behaves as the inner node. It is safe for concurrent use, and works inside and outside of bubbles of
// testing/synctest; see [Wrap] for the requirements of a client there.
//
// Each rule encloses the rules that were added after it. A call comes to the rule that was added first, which may
// pass it to the next, and so on to the node. So if two rules match, both apply, unless the first passes nothing on.
// Then the second does not see the call, and its Times are not used up.
//
// Rules keep the contract of node.Node, except for the order of calls where they say so. Errors are of type
// *node.Error, and each call is bounded by a timeout, unless a [Gate] holds it.
type Node struct {
	inner   node.Node
	seed    uint64
	timeout time.Duration

	// ctx ends when the node is closed.
	ctx   context.Context
	close context.CancelFunc
	// late counts runs in the background. It grows only under the mutex, while ctx has not ended.
	late sync.WaitGroup

	mu sync.Mutex
	// rules is immutable and only replaced: calls in flight continue with the old list.
	rules        []*Active
	calls, added int
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Listener = (*Node)(nil)
)

// WrapOption is an option of [Wrap].
type WrapOption func(*Node)

// Seed sets a seed for the Chance of rules, by default 0. The decisions also depend on the name of the node, the number of the
// rule on the node, and the calls that the rule has seen. So the same calls of a node get the same decisions in each
// run, in whatever order different nodes are called.
func Seed(seed uint64) WrapOption { return func(n *Node) { n.seed = seed } }

// Timeout is how long rules may delay a call before it fails with node.ErrTimeout, by default node.DefaultTimeout. It
// does not change the timeout of the inner node.
func Timeout(d time.Duration) WrapOption { return func(n *Node) { n.timeout = d } }

// Wrap puts a decorator without rules in front of a node. The decorator has the node's name and identity, and closes
// the node when it is closed. Wrap panics for a nil node.
//
// In a bubble of testing/synctest, time is virtual for package time, but not for clock.System, the default of clients
// and in-memory nodes: virtual time would advance endlessly while they wait for the system's. Both need
// clock.Process, and everything must be made, and closed, in the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		c := clock.Process()
//		n := faultinject.Wrap(memory.New("n1", c))
//		defer n.Close()
//		cfg := quorumlock.Config{Nodes: []node.Node{n}, Clock: c}
//		... // admin.Init, quorumlock.New, and so on
//	})
func Wrap(inner node.Node, options ...WrapOption) *Node {
	if inner == nil {
		panic("faultinject: Wrap of a nil node")
	}
	n := &Node{inner: inner, timeout: node.DefaultTimeout}
	n.ctx, n.close = context.WithCancel(context.Background())
	for _, option := range options {
		option(n)
	}
	return n
}

// Add adds a rule behind the existing ones, from the next call on. The returned [Active]
// reports how often the rule was applied, and removes it.
func (n *Node) Add(r Rule) *Active {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.added++
	a := &Active{rule: r, node: n, removed: make(chan struct{})}
	a.random = rand.New(rand.NewPCG(n.seed, nameHash(n.inner.Name())+uint64(n.added)))
	n.rules = append(slices.Clone(n.rules), a)
	return a
}

// Heal removes all rules, as [Active.Remove] does.
func (n *Node) Heal() {
	n.mu.Lock()
	rules := n.rules
	n.mu.Unlock()
	for _, a := range rules {
		a.Remove()
	}
}

// Calls counts the calls of Do and Probe. It omits calls whose context had ended, and calls after Close: they send
// nothing, and no rule sees them.
func (n *Node) Calls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls
}

// Name implements node.Node.
func (n *Node) Name() string { return n.inner.Name() }

// Identity implements node.Node.
func (n *Node) Identity() string { return n.inner.Identity() }

// Tag returns the hash tag of an inner node that is a slot of a cluster, and "" for other nodes.
func (n *Node) Tag() string {
	if slot, ok := n.inner.(interface{ Tag() string }); ok {
		return slot.Tag()
	}
	return ""
}

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	n.run(ctx, &Exchange{Ops: ops, Replies: replies})
}

// Probe implements node.Node.
func (n *Node) Probe(ctx context.Context) error {
	var reply [1]node.Reply
	n.run(ctx, &Exchange{Probe: true, Replies: reply[:]})
	return reply[0].Err
}

// Listen implements node.Listener if the inner node does: see [node.Listen]. Rules see neither the call nor the
// messages.
func (n *Node) Listen(ctx context.Context, client string, deliver func(node.Message)) (node.Inbox, error) {
	return node.Listen(ctx, n.inner, client, deliver)
}

// Close implements node.Node. It frees calls that hang, are delayed, or wait at a gate, with node.ErrClosed. It drops
// calls that were postponed, and closes the inner node. When it returns, nothing runs in the background. Closing
// twice is harmless.
func (n *Node) Close() error {
	n.mu.Lock()
	n.close()
	n.mu.Unlock()
	err := n.inner.Close()
	n.late.Wait()
	return err
}

// run passes a call through the current rules.
func (n *Node) run(ctx context.Context, x *Exchange) {
	n.through(n.arrive(ctx, x))(ctx, x)
}

// arrive counts a call, fills in its Exchange, and returns the rules. It returns none for a call that the inner node
// would refuse to send anyway.
func (n *Node) arrive(ctx context.Context, x *Exchange) []*Active {
	if ctx.Err() != nil || n.ctx.Err() != nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	x.node, x.Node, x.N = n, n.inner.Name(), n.calls
	x.deadline = time.Now().Add(n.timeout)
	return n.rules
}

// through is the path through rules to the inner node.
func (n *Node) through(rules []*Active) Next {
	if len(rules) == 0 {
		return n.exchange
	}
	next := n.through(rules[1:])
	return func(ctx context.Context, x *Exchange) { rules[0].apply(ctx, x, next) }
}

// exchange is the end of the path: the inner node.
func (n *Node) exchange(ctx context.Context, x *Exchange) {
	if x.Probe {
		x.Replies[0] = node.Reply{Err: n.inner.Probe(ctx)}
		return
	}
	n.inner.Do(ctx, x.Ops, x.Replies)
}

// later runs a function in the background after d, unless the node is closed by then.
func (n *Node) later(d time.Duration, run func(ctx context.Context)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	n.late.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			run(n.ctx)
		case <-n.ctx.Done():
		}
	})
}

// drop removes a rule from the node.
func (n *Node) drop(a *Active) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = slices.DeleteFunc(slices.Clone(n.rules), func(other *Active) bool { return other == a })
}

// nameHash turns the name of a node into a number.
func nameHash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}
