package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/examples/recipes"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// instances runs a test in virtual time with n clients of the same nodes, one for each instance of a service.
func instances(t *testing.T, n int, test func(t *testing.T, clients []*quorumlock.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := quorumlock.Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)}
		for i := range 3 {
			cfg.Nodes = append(cfg.Nodes, memory.New(fmt.Sprintf("n%d", i+1), cfg.Clock))
		}
		_, err := admin.Init(t.Context(), cfg)
		require.NoError(t, err)
		var clients []*quorumlock.Client
		for range n {
			client, err := quorumlock.New(cfg)
			require.NoError(t, err)
			defer func() { _ = client.Close(context.Background()) }()
			clients = append(clients, client)
		}
		test(t, clients)
	})
}

// together runs do for each client at the same time, and waits.
func together(clients []*quorumlock.Client, do func(i int, c *quorumlock.Client)) {
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { do(i, c) })
	}
	all.Wait()
}

// schema is an in-memory database.
type schema struct {
	mu      sync.Mutex
	version int
	token   uint64
	steps   []int
}

func (s *schema) Version(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, nil
}

func (s *schema) Step(ctx context.Context, version int, token uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case token < s.token:
		return &fence.StaleError{Token: token, Seen: s.token}
	case version != s.version+1:
		return fmt.Errorf("from %d to %d", s.version, version)
	}
	s.version, s.token, s.steps = version, token, append(s.steps, version)
	return nil
}

func TestMigrate(t *testing.T) {
	instances(t, 5, func(t *testing.T, clients []*quorumlock.Client) {
		s := &schema{version: 2}
		together(clients, func(_ int, c *quorumlock.Client) {
			assert.NoError(t, recipes.Migrate(t.Context(), c, s, 5))
		})
		require.Equal(t, []int{3, 4, 5}, s.steps)
		together(clients, func(_ int, c *quorumlock.Client) {
			assert.NoError(t, recipes.Migrate(t.Context(), c, s, 5))
		})
		require.Equal(t, []int{3, 4, 5}, s.steps, "no step is left")

		s.token = 1 << 62
		require.ErrorIs(t, recipes.Migrate(t.Context(), clients[0], s, 6), fence.ErrStale, "a late instance is refused")
	})
}

// TestWithOrWithout: the work waits for another instance that has the lock, and not for nodes that are down.
func TestWithOrWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quorumlock.Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)}
		var nodes []*memory.Node
		for i := range 3 {
			nodes = append(nodes, memory.New(fmt.Sprintf("n%d", i+1), cfg.Clock))
			cfg.Nodes = append(cfg.Nodes, nodes[i])
		}
		_, err := admin.Init(t.Context(), cfg)
		require.NoError(t, err)
		client, err := quorumlock.New(cfg)
		require.NoError(t, err)
		defer func() { _ = client.Close(context.Background()) }()
		lock := client.RedLock("job")
		work := func(token *uint64) func(context.Context) error {
			return func(ctx context.Context) error {
				*token, _ = lock.Token(ctx)
				return errors.New("failed")
			}
		}
		var with, without uint64
		lease, err := lock.Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { _ = lease.Release(t.Context()) })
		began := time.Now()
		require.EqualError(t, recipes.WithOrWithout(t.Context(), client, "job", work(&with)), "failed")
		assert.GreaterOrEqual(t, time.Since(began), time.Minute)
		assert.Greater(t, with, lease.Token())
		cfg.Nodes = []node.Node{nodes[0], memory.New("n4", cfg.Clock), memory.New("n5", cfg.Clock)}
		stray, err := quorumlock.New(cfg)
		require.NoError(t, err)
		defer func() { _ = stray.Close(context.Background()) }()
		require.ErrorIs(t, recipes.WithOrWithout(t.Context(), stray, "job", work(&with)), node.ErrLists)
		nodes[1].Stop()
		nodes[2].Stop()
		began = time.Now()
		require.EqualError(t, recipes.WithOrWithout(t.Context(), client, "job", work(&without)), "failed")
		assert.Zero(t, without)
		assert.InDelta(t, 5, time.Since(began).Seconds(), 1)
	})
}
