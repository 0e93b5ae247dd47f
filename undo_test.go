package quorumlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// hooked is a client's way to a node with a hook before and behind each exchange.
type hooked struct {
	*node.Memory
	mu            sync.Mutex
	before, after func(ops []node.Op)
}

func (g *hooked) set(before, after func(ops []node.Op)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}

func (g *hooked) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	g.mu.Lock()
	before, after := g.before, g.after
	g.mu.Unlock()
	if before != nil {
		before(ops)
	}
	g.Memory.Do(ctx, ops, replies)
	if after != nil {
		after(ops)
	}
}

func (f *fleet) hookedClient(changes ...func(*quorumlock.Config)) (*quorumlock.Client, []*hooked) {
	gs := make([]*hooked, len(f.nodes))
	c := f.client(append(changes, func(cfg *quorumlock.Config) {
		for i, nd := range f.nodes {
			gs[i] = &hooked{Memory: nd}
			cfg.Nodes[i] = gs[i]
		}
	})...)
	return c, gs
}

// A straggler denies, and a renewal that is behind it puts the lock there all the same.
func TestARenewalBehindALateDenial(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, gs := f.hookedClient()
		f.take("job", "x", 2)
		ran, proceed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		gs[2].set(nil, func([]node.Op) { once.Do(func() { close(ran); <-proceed }) })
		lease, err := c.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		<-ran // denied on the third node, and the answer is on its way
		f.free("job", "x", 2)
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(t.Context()) }()
		settled()
		close(proceed)
		require.NoError(t, <-extended)
		settled()
		have, _ := lease.Backing()
		t.Log("backing", have)
		require.NoError(t, lease.Release(t.Context()))
		f.noKeys()
	})
}

// A second proposal that is sent to some nodes only: those that granted the first one are
// forgotten.
func TestAProposalThatIsNotSentToAll(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, gs := f.hookedClient(func(cfg *quorumlock.Config) {
			cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 100*time.Millisecond, 500*time.Millisecond
		})
		warm, err := c.MultiLock("warm").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, warm.Release(t.Context()))
		settled()
		// The first node knows a larger token of the name.
		replies := make([]node.Reply, 1)
		f.nodes[0].Do(t.Context(), []node.Op{{
			Kind: node.Acquire, Names: []string{"job"}, Owner: "x:1", TTL: time.Second,
			Token: uint64(f.clock.Wall().Add(500 * time.Millisecond).UnixMicro()), Limits: f.limits,
		}}, replies)
		require.Equal(t, node.Granted, replies[0].Outcome)
		f.free("job", "x:1", 0)
		// It is slow, and the second one fails in the meantime.
		var once sync.Once
		ran, proceed := make(chan struct{}), make(chan struct{})
		gs[0].set(nil, func([]node.Op) { once.Do(func() { close(ran); <-proceed }) })
		tried := make(chan error, 1)
		go func() { _, err := c.MultiLock("job").TryAcquire(t.Context()); tried <- err }()
		<-ran
		settled() // the others have granted
		f.stop(1)
		_, err = c.MultiLock("other").With(quorumlock.LockOptions{Waiting: quorumlock.WaitSpin}).TryAcquire(t.Context())
		require.Error(t, err)
		settled()
		close(proceed)
		t.Log(<-tried)
		f.start(1)
		settled()
		for i, nd := range f.nodes {
			t.Log(i, nd.Keys())
		}
		time.Sleep(2 * time.Second)
		for i, nd := range f.nodes {
			t.Log("2 s later", i, nd.Keys())
		}
		f.noKeys()
	})
}

// An undo that is repeated for a node that was away, gives a waiter that has left an entry.
func TestALateUndoMakesNoEntryForNobody(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, gs := f.hookedClient()
		f.client()
		before := held(t, f.client().RedLock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		w := acquiring(ctx, t, c.RedLock("job"))
		require.True(t, w.waits())
		// The next attempt is granted by the third node, which is then away.
		f.free("job", before.Owner(), 2)
		var once sync.Once
		gs[2].set(nil, func(ops []node.Op) {
			if ops[0].Kind == node.Acquire {
				once.Do(func() { f.stop(2) })
			}
		})
		time.Sleep(1500 * time.Millisecond)
		cancel()
		<-w.done
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(6 * time.Second)
		f.start(2)
		time.Sleep(time.Second)
		f.noKeys()
		replies := make([]node.Reply, 1)
		f.nodes[2].Do(t.Context(), []node.Op{{
			Kind: node.Acquire, Names: []string{"job"}, Owner: "stranger:1", TTL: time.Second, Fair: true,
			Token: uint64(f.clock.Wall().UnixMicro()), Limits: f.limits,
		}}, replies)
		require.Equal(t, node.Granted, replies[0].Outcome, "somebody is in the queue who has left 7 s ago")
	})
}
