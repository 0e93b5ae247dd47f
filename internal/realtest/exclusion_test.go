package realtest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// onlooker checks, outside of Redis, that each name has one holder at a time.
type onlooker struct {
	t        *testing.T
	word     map[string]*atomic.Pointer[quorumlock.Lease]
	sections map[string]*atomic.Int64
}

func newOnlooker(t *testing.T, names []string) *onlooker {
	w := &onlooker{t: t, word: map[string]*atomic.Pointer[quorumlock.Lease]{}, sections: map[string]*atomic.Int64{}}
	for _, name := range names {
		w.word[name] = new(atomic.Pointer[quorumlock.Lease])
		w.sections[name] = new(atomic.Int64)
	}
	return w
}

// A holder calls enter. If there is another holder, the two leases must not both be valid. enter checks
// the other lease first. If both checks succeed, both leases were valid at the time of the first one.
func (w *onlooker) enter(name string, lease *quorumlock.Lease) {
	w.sections[name].Add(1)
	for {
		other := w.word[name].Load()
		w.both(name, other, lease)
		if w.word[name].CompareAndSwap(other, lease) {
			return
		}
	}
}

// total returns the number of sections so far.
func (w *onlooker) total() (n int64) {
	for _, one := range w.sections {
		n += one.Load()
	}
	return n
}

// leave is called before the release.
func (w *onlooker) leave(name string, lease *quorumlock.Lease) {
	if !w.word[name].CompareAndSwap(lease, nil) {
		w.both(name, w.word[name].Load(), lease)
	}
}

func (w *onlooker) both(name string, other, lease *quorumlock.Lease) {
	if other != nil && other.Err() == nil && lease.Err() == nil {
		w.t.Errorf("two holders of %q at once: both %s and %s have valid leases", name, other.Owner(), lease.Owner())
	}
}

func TestRealExclusion(t *testing.T) {
	t.Parallel()
	const clients, each, ttl = 5, 10, time.Second
	names := []string{"north", "south", "west"}
	// The test ends early after this many sections and pauses of a node. A slow machine need not
	// reach these numbers in the given time.
	const enough, enoughPauses, span = 15_000, 15, 30 * time.Second
	c := startCluster(t, 5)
	w := newOnlooker(t, names)
	var attempts atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()

	shares := make([]int, clients*each)
	var contenders sync.WaitGroup
	for i := range clients {
		client := c.client(withDefaultTimeouts(ttl), func(cfg *quorumlock.Config) {
			cfg.Hooks.AttemptFailed = func(quorumlock.AttemptFailedEvent) { attempts.Add(1) }
			cfg.Hooks.Acquired = func(quorumlock.AcquiredEvent) { attempts.Add(1) }
		})
		for j := range each {
			me := i*each + j
			name := names[me%len(names)]
			contenders.Go(func() {
				for ctx.Err() == nil {
					lease, err := client.RedLock(name).Acquire(ctx)
					if err != nil {
						assert.ErrorIs(t, err, ctx.Err(), "Acquire may fail only at the end of the test")
						return
					}
					w.enter(name, lease)
					shares[me]++
					work(ctx, me, shares[me], ttl)
					w.leave(name, lease)
					_ = lease.Release(ctx) // A paused node may not confirm it. The client repeats it later.
				}
			})
		}
	}
	began := time.Now()
	faults := c.pauseInTurn(ctx, func(pauses int) bool {
		return !*longForm && pauses >= enoughPauses && w.total() >= enough
	})
	cancel()
	contenders.Wait()
	took := time.Since(began).Round(time.Millisecond)

	for _, name := range names {
		n := w.sections[name].Load()
		assert.Greater(t, n, int64(10), "too few sections of %q", name)
	}
	slices.Sort(shares)
	t.Logf("%d sections in %v, %d attempts, %d pauses of a node; sections per contender: least %d, median %d, most %d",
		w.total(), took, attempts.Load(), faults, shares[0], shares[len(shares)/2], shares[len(shares)-1])
	c.noKeys()
}

// work is the contender's work inside a section. Once on each name it outlasts the TTL.
func work(ctx context.Context, contender, section int, ttl time.Duration) {
	length := time.Duration(rand.Int64N(int64(time.Millisecond)))
	if contender < 3 && section == 2 {
		length = ttl * 3 / 2
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
}

// pauseInTurn pauses one node at a time until ctx ends or enough reports true. It returns the
// number of pauses.
func (c *cluster) pauseInTurn(ctx context.Context, enough func(pauses int) bool) (pauses int) {
	for ctx.Err() == nil && !enough(pauses) {
		i := rand.IntN(len(c.servers))
		c.pause(i)
		pauses++
		wait(ctx, 50*time.Millisecond, 800*time.Millisecond)
		c.resume(i)
		wait(ctx, 10*time.Millisecond, 300*time.Millisecond)
	}
	return pauses
}

func wait(ctx context.Context, least, most time.Duration) {
	select {
	case <-time.After(least + time.Duration(rand.Int64N(int64(most-least)))):
	case <-ctx.Done():
	}
}

func TestRealMultiLockExclusion(t *testing.T) {
	t.Parallel()
	const contenders = 12
	names := []string{"a", "b", "c", "d"}
	c := startCluster(t, 3)
	w := newOnlooker(t, names)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	// The contenders give up after 50 ms on average at first, so none of them may get locks on a busy machine. They become
	// more patient with time.
	began := time.Now()
	var sections atomic.Int64
	enough := func() bool { return sections.Load() > 10 && time.Since(began) > 4*time.Second }
	const patience = quorumlock.DefaultTTL / 20
	var all sync.WaitGroup
	for range contenders {
		// The lock needs every node, so a busy machine must not look like a hung node.
		client := c.client(func(cfg *quorumlock.Config) { cfg.NodeTimeoutMin = patience })
		all.Go(func() {
			for ctx.Err() == nil && !enough() {
				// The names come in random order. Without a global order this would deadlock.
				perm := rand.Perm(len(names))
				asked := []string{names[perm[0]], names[perm[1]]}
				brief, done := context.WithTimeout(ctx, rand.N(100*time.Millisecond+time.Since(began)/20))
				lease, err := client.MultiLock(asked...).Acquire(brief)
				done()
				if err != nil {
					continue
				}
				sections.Add(1)
				for _, name := range asked {
					w.enter(name, lease)
				}
				for _, name := range asked {
					w.leave(name, lease)
				}
				// A stall of this process or of one node for the whole timeout leaves a release unconfirmed.
				// The node runs it late, so no key may be left.
				if err := lease.Release(ctx); !errors.Is(err, quorumlock.ErrNoQuorum) {
					assert.NoError(t, err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d sections under two names each", sections.Load())
	c.noKeys()
	require.True(t, enough(), "contenders need more sections; they had %d", sections.Load())
}

// straying is a server to which the first acquisition does not get. Its client counts that as timed out.
type straying struct {
	node.Node
	stray []node.Op
}

func (s *straying) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	if s.stray != nil || ops[0].Kind != node.Acquire {
		s.Node.Do(ctx, ops, replies)
		return
	}
	s.stray = slices.Clone(ops)
	for i := range replies {
		replies[i] = node.Reply{Err: &node.Error{Node: s.Name(), Op: node.Acquire, Reason: node.ErrTimeout}}
	}
}

// The acquisition of one server strays in the network, the holder extends its lease on all servers, and then the
// acquisition arrives. It must not shorten the lock.
func TestRealLateAcquisitionShortensNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	last := &straying{}
	client := c.client(func(cfg *quorumlock.Config) {
		cfg.TTL, cfg.MaxTTL = 20*time.Second, time.Minute
		for _, address := range cfg.Addresses {
			n, err := node.OpenRedis(address)
			require.NoError(t, err)
			t.Cleanup(func() { _ = n.Close() })
			cfg.Nodes = append(cfg.Nodes, n)
		}
		last.Node = cfg.Nodes[2]
		cfg.Nodes[2], cfg.Addresses = last, nil
	})
	lease := acquire(t, client.RedLock("job").With(quorumlock.LockOptions{Fixed: true}))
	eventually(t, soon, func() bool {
		return lease.ExtendFor(t.Context(), time.Minute) == nil && c.command(2, "EXISTS", "job") == "1"
	}, "the lease is extended on the last server")
	last.Node.Do(t.Context(), last.stray, make([]node.Reply, len(last.stray)))
	require.Greater(t, c.number(2, "PTTL", "job"), 20_000)
}
