package nodetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// inGo has the promises that are not told in text: about contexts, about Close, and about many callers at once. They
// belong to the groups with these names.
var inGo = map[string][]promise{
	"acquire":    {{"of many at once exactly one is granted", func(x *trial) { x.race() }}},
	"batch":      {{"the operations are only read", func(x *trial) { x.onlyRead() }}},
	"fence":      {{"tokens of a name grow, whatever owners propose", func(x *trial) { x.grow() }}},
	"limits":     {{"of many that come first at once, one sets the limits", func(x *trial) { x.firstOfMany() }}},
	"read queue": {{"however many readers there are", func(x *trial) { x.crowd() }}},
	"recovery":   {{"a recovery ends when it is over, and not before", func(x *trial) { x.endsAt() }}},
	"marker":     {{"handles on one deployment have one identity", func(x *trial) { x.oneIdentity() }}},
	"follow":     following,
	"inbox":      listening,
	"life":       living,
}

// ask runs one line, and ends the test if a reply is not as expected.
func (x *trial) ask(line string) {
	x.Helper()
	x.tell(nil, []step{{at: "line", text: line}})
}

// handles returns all handles on the deployment.
func (x *trial) handles() []node.Node {
	if x.Second == nil {
		return []node.Node{x.Node}
	}
	return []node.Node{x.Node, x.Second()}
}

var living = []promise{
	{"the name is fixed", func(x *trial) {
		name := x.Node.Name()
		assert.NotEmpty(x, name)
		x.ask("open")
		assert.Equal(x, name, x.Node.Name())
		require.NoError(x, x.Node.Close())
		assert.Equal(x, name, x.Node.Name())
	}},
	{"a probe is answered", func(x *trial) {
		require.NoError(x, x.Node.Probe(context.Background()))
		x.ask("open")
		x.ask("acquire o1 a -> granted")
		require.NoError(x, x.Node.Probe(context.Background()))
		x.ask("keys a")
	}},
	{"a context that has ended sends nothing", func(x *trial) {
		x.ask("open")
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		x.refuses(canceled)
		late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
		defer cancel()
		x.refuses(late)
		x.ask("acquire o1 a -> granted")
		x.refuses(canceled)
		x.ask("keys a")
	}},
	{"a context with a deadline is one as any other", func(x *trial) {
		x.ask("open")
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		for _, r := range x.doWith(ctx, x.Node, x.acquisition("o1", "a"), x.complete(node.Op{Kind: node.Inspect, Names: []string{"a"}})) {
			assert.NoError(x, r.Err)
		}
		require.NoError(x, x.Node.Probe(ctx))
		cancel()
		x.refuses(ctx)
		x.ask("keys a")
	}},
	{"a closed node sends nothing", func(x *trial) {
		x.ask("open")
		x.ask("acquire o1 a -> granted")
		require.NoError(x, x.Node.Close())
		x.ask("release o1 a; acquire o1 b -> closed unsent")
		x.probeFailed(node.ErrClosed, x.Node.Probe(context.Background()))
		x.ask("keys a")
	}},
	{"a node that was never used can be closed", func(x *trial) {
		require.NoError(x, x.Node.Close())
		x.probeFailed(node.ErrClosed, x.Node.Probe(context.Background()))
	}},
	{"closing twice is harmless", func(x *trial) {
		x.ask("open")
		require.NoError(x, x.Node.Close())
		require.NoError(x, x.Node.Close())
	}},
	{"handles on one deployment see the same locks", func(x *trial) {
		x.ask("open")
		handles := x.handles()
		last := handles[len(handles)-1]
		x.ask("acquire o1 a -> granted")
		r := x.doWith(context.Background(), last, x.acquisition("o2", "a"))[0]
		assert.Equal(x, node.Denied, r.Outcome)
		assert.Equal(x, "o1", r.Holder.Owner)
		r = x.doWith(context.Background(), last, node.Op{Kind: node.Release, Names: []string{"a"}, Owner: "o1"})[0]
		assert.Equal(x, node.Released, r.Outcome)
		x.ask("acquire o2 a -> granted")
	}},
	{"many callers at once, and a Close among them", func(x *trial) { x.closeAmidst() }},
}

// acquisition is an attempt with a new token.
func (x *trial) acquisition(owner, name string) node.Op {
	return x.complete(node.Op{Kind: node.Acquire, Names: []string{name}, Owner: owner, TTL: long})
}

// refuses requires that nothing reaches the node under a context that has ended.
func (x *trial) refuses(ctx context.Context) {
	x.Helper()
	ops := []node.Op{x.acquisition("o9", "refused"), x.complete(node.Op{Kind: node.Release, Names: []string{"a"}, Owner: "o1"})}
	for i, r := range x.doWith(ctx, x.Node, ops...) {
		require.NoError(x, x.check(ops[i], r, scan("canceled unsent")))
	}
	x.probeFailed(node.ErrCanceled, x.Node.Probe(ctx))
	assert.NotContains(x, x.Keys(), "refused")
}

func (x *trial) probeFailed(reason, err error) {
	x.Helper()
	require.ErrorIs(x, err, reason)
	var e *node.Error
	require.ErrorAs(x, err, &e)
	assert.Equal(x, x.Node.Name(), e.Node)
	assert.Zero(x, e.Op)
}

// closeAmidst closes the node while callers use it. Each call must get a reply or fail, and an operation that
// is reported as unsent must not have run.
func (x *trial) closeAmidst() {
	x.ask("open")
	const callers, calls = 8, 50
	unsent := make([]string, 0)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for call := range calls {
				name := string(rune('a'+caller)) + string(rune('A'+call))
				op := node.Op{Kind: node.Acquire, Names: []string{name}, Owner: "o1", TTL: long, Limits: limits, Token: x.began}
				if r := x.doWith(context.Background(), x.Node, op)[0]; r.Unsent {
					mu.Lock()
					unsent = append(unsent, name)
					mu.Unlock()
				}
				_ = x.Node.Probe(context.Background())
				if caller == 0 && call == calls/2 {
					assert.NoError(x, x.Node.Close())
				}
			}
		})
	}
	wg.Wait()
	require.NotEmpty(x, unsent)
	held := x.Keys()
	for _, name := range unsent {
		assert.NotContains(x, held, name)
	}
}

// onlyRead requires that a batch leaves its operations as they were.
func (x *trial) onlyRead() {
	x.ask("open")
	ops := []node.Op{
		x.acquisition("o1", "b"),
		x.complete(node.Op{Kind: node.ForceRelease, Names: []string{"b", "a"}, TTL: long, Buried: []string{"o2"}}),
		x.complete(node.Op{Kind: node.Release, Names: []string{"b", "a"}, Owner: "o1"}),
	}
	given := slices.Clone(ops)
	for i := range given {
		given[i].Names, given[i].Buried = slices.Clone(ops[i].Names), slices.Clone(ops[i].Buried)
	}
	x.do(given...)
	assert.Equal(x, ops, given)
}

// oneIdentity requires that all handles know the identity in the marker.
func (x *trial) oneIdentity() {
	ids := map[string]bool{}
	for _, n := range x.handles() {
		r := x.doWith(context.Background(), n, x.complete(node.Op{Kind: node.Mark}))[0]
		require.NoError(x, r.Err)
		assert.Equal(x, r.Marker.Identity, n.Identity())
		ids[n.Identity()] = true
	}
	assert.Len(x, ids, 1)
}

// endsAt requires that a recovery does not end before its time by the clock of the last refusal, and has ended by
// the clock at which rights are given again.
func (x *trial) endsAt() {
	x.limits = node.Limits{MaxTTL: 60 * time.Millisecond, MaxClockSkew: 20 * time.Millisecond}
	x.ask("acquire o1 a ttl=30ms -> recovering left=80ms length=80ms")
	until := x.do(x.complete(node.Op{Kind: node.Mark}))[0].Marker.Until
	left := x.limits.Recovery()
	op := node.Op{Kind: node.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Millisecond, Limits: x.limits, Token: 1}
	for range attempts {
		r := x.do(op)[0]
		if errors.Is(r.Err, node.ErrClock) {
			assert.GreaterOrEqual(x, clockOf(1, r), uint64(until))
			x.ask("timely acquire o1 a ttl=30ms token=now -> granted")
			return
		}
		require.NoError(x, x.check(op, r, scan("recovering")))
		require.LessOrEqual(x, r.Recovering, left)
		left = r.Recovering
		x.Pass(time.Millisecond)
	}
	require.Fail(x, "the recovery does not end")
}
