package quorumlock_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// remote is an in-memory node that takes time to connect.
type remote struct {
	*memory.Node
	mu        sync.Mutex
	connected bool
	takes     time.Duration
	fails     error
	probes    int
	// breaks makes the next exchange fail: its connection breaks, and a new one exists at once.
	breaks bool
}

func (r *remote) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	r.mu.Lock()
	breaks := r.breaks
	r.breaks = false
	r.mu.Unlock()
	if !breaks {
		r.Node.Do(ctx, ops, replies)
		return
	}
	for i := range ops {
		replies[i] = wire.Reply{Err: &node.Error{Node: r.Name(), Op: ops[i].Kind.String(), Reason: node.ErrUnreachable, Err: io.EOF}}
	}
}

func (r *remote) Connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connected
}

func (r *remote) Probe(ctx context.Context) error {
	r.mu.Lock()
	r.probes++
	connected, takes, fails := r.connected, r.takes, r.fails
	r.mu.Unlock()
	if !connected {
		time.Sleep(takes)
	}
	if fails != nil {
		return &node.Error{Node: r.Name(), Reason: node.ErrUnreachable, Err: fails}
	}
	r.mu.Lock()
	r.connected = true
	r.mu.Unlock()
	return r.Node.Probe(ctx)
}

// hangUp closes the connections once nothing is in flight on them.
func hangUp(nodes []*remote) {
	fleet.Settle()
	for _, r := range nodes {
		r.mu.Lock()
		r.connected = false
		r.mu.Unlock()
	}
}

// set changes how connecting goes from now on.
func (r *remote) set(takes time.Duration, fails error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes, r.fails = takes, fails
}

// remotely makes a client connect to each node of a fleet in the given time.
func remotely(f *fleet.Fleet, takes time.Duration) (nodes []*remote, change func(*quorumlock.Config)) {
	for _, nd := range f.Nodes {
		nodes = append(nodes, &remote{Node: nd, takes: takes})
	}
	return nodes, func(cfg *quorumlock.Config) {
		cfg.Nodes = nil
		for _, nd := range nodes {
			cfg.Nodes = append(cfg.Nodes, nd)
		}
	}
}

// Connecting takes longer than an operation may. The first operation waits for it, and loses
// nothing of its TTL. The same holds for connections that were closed later.
func TestOperationsWaitForTheConnection(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const takes = 1900 * time.Millisecond
		nodes, far := remotely(f, takes)
		var down []string
		client := f.Client(far, func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeDown = func(name string, _ error) { down = append(down, name) }
		})
		lock := client.RedLock("a").With(quorumlock.LockOptions{Fixed: true})
		for range 2 {
			var lease *quorumlock.Lease
			var err error
			assert.Equal(t, takes, f.Elapsed(func() { lease, err = lock.TryAcquire(t.Context()) }))
			require.NoError(t, err)
			assert.Greater(t, lease.Remaining(), quorumlock.DefaultTTL*95/100, "connecting is no part of the TTL")
			assert.Zero(t, f.Elapsed(func() { err = lease.Extend(t.Context()) }))
			require.NoError(t, err)
			hangUp(nodes)
			assert.Equal(t, takes, f.Elapsed(func() { err = lease.Release(t.Context()) }))
			require.NoError(t, err)
			hangUp(nodes)
		}
		fleet.Settle()
		assert.Empty(t, down)
		f.RequireNoKeys()
	})
}

// Callers learn that a node takes too long to connect. Connecting goes on, and a later operation
// finds the connection.
func TestConnectingGoesOnBehindTheCallers(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		nodes, far := remotely(f, 5*time.Second)
		client := f.Client(far)
		lock := client.RedLock("a")
		var err error
		took := f.Elapsed(func() { _, err = lock.Inspect(t.Context()) })
		assert.Equal(t, 2*time.Second, took, "the default of ConnectTimeout")
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.ErrorIs(t, err, node.ErrTimeout)
		require.NotErrorIs(t, err, node.ErrDown)
		assert.Contains(t, err.Error(), "still connecting")

		assert.Zero(t, f.Elapsed(func() { _, err = lock.TryAcquire(t.Context()) }))
		require.ErrorIs(t, err, node.ErrDown)

		time.Sleep(3 * time.Second)
		fleet.Settle()
		lease, err := lock.TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		assert.Equal(t, 1, nodes[0].probes)
		f.RequireNoKeys()
	})
}

// If connecting fails, the waiting callers get the reason, and the node then counts as down.
func TestConnectingFails(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		refused := errors.New("connection refused")
		nodes, far := remotely(f, time.Second)
		nodes[0].set(time.Second, refused)
		client := f.Client(far)
		_, err := client.RedLock("a").Inspect(t.Context())
		require.ErrorIs(t, err, refused)
		require.ErrorIs(t, err, node.ErrUnreachable)
		require.NotErrorIs(t, err, node.ErrDown, "the node was not down before this call")
		_, err = client.RedLock("a").TryAcquire(t.Context())
		require.ErrorIs(t, err, node.ErrDown)
		require.ErrorIs(t, err, refused)

		// Connect asks a node even during its pause after a failure.
		nodes[0].set(time.Second, nil)
		require.NoError(t, client.Connect(t.Context()))
		lease, err := client.RedLock("a").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A dead connection is not a dead node. If the node has a new connection, the client asks it again
// at once.
func TestBrokenConnectionIsNoFailureOfTheNode(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		nodes, far := remotely(f, time.Second)
		client := f.Client(far, func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeDown = func(name string, _ error) { t.Errorf("%s counts as down", name) }
		})
		f.Introduce(client)
		nodes[0].mu.Lock()
		nodes[0].breaks = true
		nodes[0].mu.Unlock()
		_, err := client.RedLock("a").TryAcquire(t.Context())
		require.ErrorIs(t, err, node.ErrUnreachable)
		lease, err := client.RedLock("a").TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
	})
}

// Connect returns at a majority, and not before.
func TestConnect(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		nodes, far := remotely(f, 0)
		for i, nd := range nodes {
			nd.set(time.Duration(i+1)*300*time.Millisecond, nil)
		}
		client := f.Client(far)
		var err error
		assert.Equal(t, 900*time.Millisecond, f.Elapsed(func() { err = client.Connect(t.Context()) }))
		require.NoError(t, err)
		assert.Zero(t, f.Elapsed(func() { err = client.Connect(t.Context()) }))
		require.NoError(t, err)
		time.Sleep(time.Second)
		fleet.Settle()
		for i, nd := range nodes {
			assert.True(t, nd.Connected(), "the others go on: %d", i)
		}

		// A Connect joins a connection attempt that an operation has begun.
		hangUp(nodes)
		tried := make(chan error, 1)
		go func() {
			_, err := client.RedLock("a").TryAcquire(t.Context())
			tried <- err
		}()
		fleet.Settle()
		require.NoError(t, client.Connect(t.Context()))
		require.NoError(t, <-tried)
		for _, nd := range nodes {
			assert.Equal(t, 2, nd.probes)
		}
	})
}

// A Connect that fails names each node. A Connect that is cancelled says so.
func TestConnectFails(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		nodes, far := remotely(f, 10*time.Second)
		nodes[0].set(100*time.Millisecond, nil)
		nodes[1].set(200*time.Millisecond, errors.New("connection refused"))
		client := f.Client(far)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := client.Connect(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var failure *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, 1, failure.Pending)
		assert.Equal(t, "quorumlock: connect: no quorum: 1 of 3 nodes agreed, 2 needed, and 1 had not answered when the call ended"+
			" (n2: connect: unreachable: connection refused; n3: connect: unreachable: still connecting): gave up: context deadline exceeded", err.Error())

		other := f.Client(far)
		took := f.Elapsed(func() { err = other.Connect(t.Context()) })
		assert.Equal(t, 2*time.Second, took, "ConnectTimeout bounds it")
		require.ErrorIs(t, err, node.ErrTimeout)
		require.NoError(t, other.Close(context.Background()))
		require.ErrorIs(t, other.Connect(t.Context()), quorumlock.ErrClosed)
		require.ErrorIs(t, client.Connect(nil), quorumlock.ErrInvalid) //nolint:staticcheck // the mistake in question
	})
}

// Nodes that cannot say whether they are connected are probed.
func TestConnectProbesOtherNodes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		require.NoError(t, client.Connect(t.Context()))
		f.Stop(0, 1)
		require.ErrorIs(t, client.Connect(t.Context()), quorumlock.ErrNoQuorum)
		f.Start(0, 1)
		require.NoError(t, client.Connect(t.Context()))
	})
}
