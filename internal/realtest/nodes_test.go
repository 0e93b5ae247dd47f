package realtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// service is what the programs of a service have done.
type service struct {
	t       *testing.T
	holders atomic.Int32
	turns   atomic.Int64
	token   atomic.Uint64
}

// program is a program of a service. It holds a lock of its own for as long as it runs, and takes turns with the others.
type program struct {
	client *quorumlock.Client
	lease  *quorumlock.Lease
	stop   context.CancelFunc
	work   sync.WaitGroup
}

func (s *service) start(name string, list []string, changes ...func(*quorumlock.Config)) *program {
	changes = append([]func(*quorumlock.Config){changing, func(cfg *quorumlock.Config) { cfg.Addresses, cfg.AllowEven = list, true }}, changes...)
	p := &program{client: newClient(s.t, changes...)}
	p.lease = acquire(s.t, p.client.RedLock(name))
	ctx, stop := context.WithCancel(s.t.Context())
	p.stop = stop
	p.work.Go(func() {
		for ctx.Err() == nil {
			s.turn(ctx, p.client)
		}
	})
	return p
}

func (s *service) turn(ctx context.Context, client *quorumlock.Client) {
	lease, err := client.RedLock("turn").Acquire(ctx)
	if err != nil {
		assert.ErrorIs(s.t, err, context.Canceled)
		return
	}
	assert.EqualValues(s.t, 1, s.holders.Add(1), "a second holder")
	assert.Greater(s.t, lease.Token(), s.token.Swap(lease.Token()))
	s.turns.Add(1)
	lost := lease.Err()
	s.holders.Add(-1)
	assert.NoError(s.t, errors.Join(lost, lease.Release(context.WithoutCancel(ctx))))
}

// end stops a program, whose leases were not lost.
func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop()
	p.work.Wait()
	require.NoError(t, p.lease.Err())
	require.NoError(t, p.lease.Release(t.Context()))
	closeClient(t, p.client)
}

// changing has short limits, as a step waits for three recoveries.
func changing(cfg *quorumlock.Config) {
	withTTL(2 * time.Second)(cfg)
	cfg.MaxTTL, cfg.MaxClockSkew = cfg.TTL, cfg.TTL/10
}

// listsOn returns the lists in use that a node knows.
func listsOn(t *testing.T, address string) (lists []string) {
	t.Helper()
	opt, err := node.ParseOptions(address)
	require.NoError(t, err)
	n, err := node.New(opt)
	require.NoError(t, err)
	defer func() { _ = n.Close() }()
	require.NoError(t, n.Probe(t.Context()))
	replies := make([]wire.Reply, 1)
	n.Do(t.Context(), []wire.Op{{Kind: wire.Enlist, List: &wire.ListOp{Key: wire.ListKey("")}}}, replies)
	require.NoError(t, replies[0].Err)
	for _, l := range replies[0].List.Others {
		lists = append(lists, strings.Join(l.Addresses, ","))
	}
	return lists
}

// TestRealNodesChange: a service goes from three nodes to five, replaces one by a node with another address, and goes back
// to three, as docs/on-call.md says, while it works.
func TestRealNodesChange(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.client(changing)
	all := c.addresses()
	for _, s := range redisproc.StartN(t, 3) {
		all = append(all, s.Addr())
	}
	list := func(numbers ...int) (addresses []string) {
		for _, n := range numbers {
			addresses = append(addresses, all[n-1])
		}
		return addresses
	}
	s := &service{t: t}
	now := list(1, 2, 3)
	programs := []*program{s.start("0/0", now), s.start("0/1", now)}
	for i, next := range [][]string{list(1, 2, 3, 4), list(1, 2, 3, 4, 5), list(1, 2, 3, 4, 5, 6), list(1, 2, 4, 5, 6), list(1, 4, 5, 6), list(4, 5, 6)} {
		before := s.turns.Load()
		for j, p := range programs {
			programs[j] = s.start(fmt.Sprint(i+1, "/", j), next)
			p.end(t)
		}
		older := slices.Sorted(slices.Values(now))
		require.Eventually(t, func() bool {
			return !slices.ContainsFunc(next, func(address string) bool { return slices.Contains(listsOn(t, address), strings.Join(older, ",")) })
		}, atMost, 100*time.Millisecond, "the older list runs out")
		require.Eventually(t, func() bool { return programs[0].client.Ready(t.Context()) == nil }, atMost, 100*time.Millisecond)
		require.Greater(t, s.turns.Load(), before)
		now = next
	}
	for _, p := range programs {
		p.end(t)
	}
}

// TestRealLimitsChange: a service gets a larger MaxTTL and a larger MaxClockSkew and goes back, as docs/on-call.md says, while it
// works, and a server forgets everything at each step. A program with limits that do not fit is refused.
func TestRealLimitsChange(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	limits := func(ttl, skew, recovery time.Duration) func(*quorumlock.Config) {
		return func(cfg *quorumlock.Config) { cfg.MaxTTL, cfg.MaxClockSkew, cfg.Recovery = ttl, skew, recovery }
	}
	const small, large, recovery = 2 * time.Second, 3 * time.Second, 3300 * time.Millisecond
	steps := []func(*quorumlock.Config){
		limits(small, small/10, 0), limits(small, small/10, recovery), limits(large, large/10, 0), limits(small, small/10, recovery), limits(small, small/10, 0),
	}
	s := &service{t: t}
	programs := []*program{s.start("0/0", c.addresses(), steps[0]), s.start("0/1", c.addresses(), steps[0])}
	for i, next := range steps[1:] {
		before := s.turns.Load()
		for j, p := range programs {
			programs[j] = s.start(fmt.Sprint(i+1, "/", j), c.addresses(), next)
			if j == 0 { // each other program has the limits before these
				c.command(i%3, "FLUSHALL")
				require.Eventually(t, func() bool { return s.turns.Load() > before+10 }, atMost, 10*time.Millisecond)
			}
			p.end(t)
		}
		if i%2 == 0 {
			_, err := newClient(t, changing, steps[i+2], func(cfg *quorumlock.Config) { cfg.Addresses = c.addresses() }).RedLock("too early").TryAcquire(t.Context())
			var settings *node.SettingsError
			require.ErrorAs(t, err, &settings)
			require.ErrorIs(t, err, node.ErrSettings)
		}
		require.Eventually(t, func() bool { return len(listsOn(t, c.addresses()[i%3])) == 1 }, atMost, 100*time.Millisecond, "the older limits run out")
	}
	for _, p := range programs {
		p.end(t)
	}
}

// TestRealLimitsChangeWhileAllForget: in the middle of a change, all servers forget a lease of a program with the larger MaxTTL,
// and a program with the smaller one waits until that has ended.
func TestRealLimitsChangeWhileAllForget(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	larger := c.client(withTTL(3*time.Second), func(cfg *quorumlock.Config) { cfg.MaxTTL, cfg.MaxClockSkew = 3*time.Second, 300*time.Millisecond })
	smaller := c.client(withTTL(time.Second), func(cfg *quorumlock.Config) {
		cfg.MaxTTL, cfg.MaxClockSkew, cfg.Recovery = time.Second, 100*time.Millisecond, 3300*time.Millisecond
	})
	require.NoError(t, acquire(t, smaller.RedLock("other")).Release(t.Context()))
	lease, err := larger.RedLock("job").With(quorumlock.LockOptions{Fixed: true}).Acquire(t.Context())
	require.NoError(t, err)
	for i := range c.servers {
		c.command(i, "FLUSHALL")
	}
	next := acquire(t, smaller.RedLock("job"))
	require.Error(t, lease.Err(), "a second holder")
	require.Greater(t, next.Token(), lease.Token())
}

// TestRealProtocols: programs of protocol 0, whose lists have no terms, and of a protocol too far ahead keep a program out while
// their lists count, and the error names both versions. One of the next protocol, that bears this one, works beside it.
func TestRealProtocols(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	list := wire.NewList(c.addresses())
	in := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMilli()) }
	note := func(terms string, life time.Duration) {
		for i := range c.servers {
			c.command(i, "HSET", wire.ListKey(""), terms+strings.Join(list.Addresses, "\n"), in(life)+"\nother\n\n\n")
		}
	}
	client := c.client(changing)
	note("2 1 2000 200 2200 more\n", time.Hour)
	require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context()))
	require.Len(t, listsOn(t, c.addresses()[0]), 2, "each knows the other")
	for terms, protocol := range map[string]int{"": 0, "3 2 ?\n": 3} {
		another := c.client(changing)
		note(terms, 3*time.Second)
		_, err := another.RedLock("job").TryAcquire(t.Context())
		var settings *node.SettingsError
		require.ErrorAs(t, err, &settings)
		require.ErrorContains(t, err, fmt.Sprintf("this program speaks protocol 1, and other speaks protocol %d", protocol))
		var lease *quorumlock.Lease
		require.Eventually(t, func() bool {
			lease, err = another.RedLock("job").TryAcquire(t.Context())
			return err == nil
		}, atMost, 100*time.Millisecond, "its list runs out")
		require.NoError(t, lease.Release(t.Context()))
	}
}
