package nodetest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

var living = []promise{
	{"the name is fixed", func(x *trial) {
		name := x.Node.Name()
		assert.NotEmpty(x, name)
		x.want(node.Granted, acquire("o1", long, "a"))
		assert.Equal(x, name, x.Node.Name())
		require.NoError(x, x.Node.Close())
		assert.Equal(x, name, x.Node.Name())
	}},
	{"a probe is answered", func(x *trial) {
		require.NoError(x, x.Node.Probe(context.Background()))
		x.want(node.Granted, acquire("o1", long, "a"))
		require.NoError(x, x.Node.Probe(context.Background()))
		x.keys("a")
	}},
	{"a context that has ended sends nothing", func(x *trial) {
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		x.refuses(canceled)
		late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
		defer cancel()
		x.refuses(late)
		x.want(node.Granted, acquire("o1", long, "a"))
		x.refuses(canceled)
		x.keys("a")
	}},
	{"a context with a deadline is one as any other", func(x *trial) {
		ctx, cancel := context.WithTimeout(context.Background(), long)
		defer cancel()
		x.outcomes(x.doWith(ctx, x.Node, acquire("o1", long, "a"), release("o1", "a")), node.Granted, node.Released)
		require.NoError(x, x.Node.Probe(ctx))
		cancel()
		x.refuses(ctx)
		x.want(node.Absent, release("o1", "a"))
	}},
	{"a closed node sends nothing", func(x *trial) {
		keys := x.Keys
		x.want(node.Granted, acquire("o1", long, "a"))
		require.NoError(x, x.Node.Close())
		op := release("o1", "a")
		r := x.fails(node.ErrClosed, op)
		assert.True(x, r.Unsent)
		x.permanently(node.ErrClosed, acquire("o1", long, "b"))
		err := x.Node.Probe(context.Background())
		x.probeFailed(node.ErrClosed, err)
		assert.Equal(x, []string{"a"}, keys())
	}},
	{"a node that was never used can be closed", func(x *trial) {
		require.NoError(x, x.Node.Close())
		x.probeFailed(node.ErrClosed, x.Node.Probe(context.Background()))
	}},
	{"closing twice is harmless", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, "a"))
		require.NoError(x, x.Node.Close())
		require.NoError(x, x.Node.Close())
	}},
	{"handles on one deployment see the same locks", func(x *trial) {
		handles := x.handles()
		last := handles[len(handles)-1]
		x.want(node.Granted, acquire("o1", long, "a"))
		r := x.doOn(last, acquire("o2", long, "a"))[0]
		x.outcome(node.Denied, r)
		assert.Equal(x, "o1", r.Holder.Owner)
		x.outcome(node.Released, x.doOn(last, release("o1", "a"))[0])
		x.want(node.Granted, acquire("o2", long, "a"))
	}},
	{"many callers at once, and a Close among them", func(x *trial) { x.closeAmidst() }},
}

// refuses requires that nothing reaches the node under a context that has ended.
func (x *trial) refuses(ctx context.Context) {
	x.Helper()
	ops := []node.Op{acquire("o9", long, "refused"), release("o9", "a")}
	for i, r := range x.doWith(ctx, x.Node, ops...) {
		x.failed(node.ErrCanceled, ops[i], r)
		assert.True(x, r.Unsent)
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
	const callers, calls = 8, 50
	unsent := make([]string, 0)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for call := range calls {
				name := string(rune('a'+caller)) + string(rune('A'+call))
				r := x.doOn(x.Node, acquire("o1", long, name))[0]
				if r.Unsent {
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
