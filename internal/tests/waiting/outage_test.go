package waiting_test

import (
	"context"
	"math"
	"sync/atomic"
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

// forOutage returns a lock that goes on for this long while too few nodes answer.
func forOutage(c *quorumlock.Client, most time.Duration) *quorumlock.Lock {
	return c.RedLock("job").With(quorumlock.LockOptions{MaxOutage: most})
}

func TestAcquireEndsAfterMaxOutage(t *testing.T) {
	for name, down := range map[string]func(*fleet.Fleet){
		"nodes that are down": func(f *fleet.Fleet) { f.Stop(1, 2) },
		"nodes that hang":     func(f *fleet.Fleet) { f.Pause(1, 2) },
	} {
		for _, spins := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
					lock := forOutage(f.Client(), 3*time.Second).With(quorumlock.LockOptions{Spin: spins})
					down(f)
					began := f.Clock.Now()
					_, err := lock.Acquire(t.Context())
					require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
					require.NotErrorIs(t, err, quorumlock.ErrHeld)
					took := f.Clock.Now() - began
					assert.GreaterOrEqual(t, took, 3*time.Second)
					assert.Less(t, took, 4*time.Second)
				})
			})
		}
	}
}

func TestAcquireWithoutAnOutageTriesOnce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := forOutage(f.Client(), -1)
		fleet.MustAcquire(t, lock) // enough nodes answer
		f.Stop(1, 2)
		began := f.Clock.Now()
		for _, l := range []*quorumlock.Lock{forOutage(f.Client(), -1), f.Client().RWLock("r").With(quorumlock.LockOptions{MaxOutage: -1}).Read()} {
			_, err := l.Acquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		}
		_, err := f.Client().Semaphore("s", 2).With(quorumlock.LockOptions{MaxOutage: -1}).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		joined := quorumlock.Join(forOutage(f.Client(), -1))
		_, err = joined.Acquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.Less(t, f.Clock.Now()-began, 3*time.Second)
	})
}

// A holder is waited for as long as the context allows: MaxOutage does not bound that.
func TestMaxOutageDoesNotBoundTheWaitForAHolder(t *testing.T) {
	for _, most := range []time.Duration{-1, time.Second} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			before := fleet.MustAcquire(t, f.Client().RedLock("job"))
			waiting := fleet.StartAcquire(t.Context(), t, forOutage(f.Client(), most))
			time.Sleep(30 * time.Second)
			require.NoError(t, before.Release(t.Context()))
			<-waiting.Done
			require.NoError(t, waiting.Err)
			require.NoError(t, waiting.Lease.Release(t.Context()))
		})
	}
}

// Enough nodes answer now and then, so no outage lasts for MaxOutage.
func TestAnswersOfAQuorumEndAnOutage(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		before := fleet.MustAcquire(t, f.Client().RedLock("job"))
		waiting := fleet.StartAcquire(t.Context(), t, forOutage(f.Client(), 8*time.Second))
		for range 5 {
			f.Stop(1, 2)
			time.Sleep(5 * time.Second)
			f.Start(1, 2)
			time.Sleep(5 * time.Second)
		}
		_ = before.Release(t.Context())
		<-waiting.Done
		require.NoError(t, waiting.Err)
		require.NoError(t, waiting.Lease.Release(t.Context()))
	})
}

// Callers behind the first one of their client give up with it: they have waited as long.
func TestAllCallersGiveUpAfterMaxOutage(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lock := forOutage(f.Client(), 3*time.Second)
		f.Pause(1, 2)
		began := f.Clock.Now()
		var all []*fleet.Acquisition
		for range 50 {
			all = append(all, fleet.StartAcquire(context.WithoutCancel(t.Context()), t, lock))
		}
		for _, one := range all {
			<-one.Done
			require.ErrorIs(t, one.Err, quorumlock.ErrNoQuorum)
		}
		require.Less(t, f.Clock.Now()-began, 5*time.Second)
	})
}

// A caller that bears no outage waits behind one that bears all. It gives up when the outage begins.
func TestOutageEndsTheWaitBehindAPatientCaller(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, holder := f.Client(), fleet.MustAcquire(t, f.Client().RedLock("job"))
		patient := fleet.StartAcquire(t.Context(), t, client.RedLock("job"))
		require.True(t, patient.Waits())
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		behind := fleet.StartAcquire(ctx, t, forOutage(client, -1))
		require.True(t, behind.Waits())
		f.Stop(1, 2)
		<-behind.Done
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, behind.Err, quorumlock.ErrNoQuorum)
		f.Start(1, 2)
		require.NoError(t, holder.Release(t.Context()))
		<-patient.Done
		require.NoError(t, patient.Lease.Release(t.Context()))
	})
}

// A caller with a bound waits behind one without, and has waited for less than the outage has lasted.
func TestMaxOutageCountsFromTheCall(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		f.Stop(1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		endless := fleet.StartAcquire(ctx, t, client.RedLock("job"))
		time.Sleep(10 * time.Second)
		began := f.Clock.Now()
		_, err := forOutage(client, 3*time.Second).Acquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		require.InDelta(t, 3*time.Second, f.Clock.Now()-began, float64(100*time.Millisecond))
		f.Start(1, 2)
		later := fleet.StartAcquire(ctx, t, forOutage(client, 3*time.Second))
		<-endless.Done
		require.NoError(t, endless.Err)
		f.Stop(1, 2) // the holder's own client knows nothing of that while it does not ask
		time.Sleep(2 * time.Second)
		require.True(t, later.Waits())
		cancel()
		<-later.Done
		require.ErrorIs(t, later.Err, context.Canceled)
	})
}

// rejecting is a path to a node that rejects acquisitions while it is told to, as one does that is out of memory.
type rejecting struct {
	*memory.Node
	on        *atomic.Bool
	roundTrip time.Duration
}

func (n rejecting) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	time.Sleep(n.roundTrip)
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Acquire && n.on.Load() {
			replies[i] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: node.ErrRejected}}
		}
	}
}

// The only waiter that met an outage leaves, and the others wait for holders without asking. So no attempt shows that it is over.
func TestOutageIsForgottenIfNobodyAsks(t *testing.T) {
	for _, kind := range []string{"readers", "permits"} {
		t.Run(kind, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				var outage atomic.Bool
				client := f.Client(func(cfg *quorumlock.Config) {
					for i, n := range f.Nodes {
						cfg.Nodes[i] = rejecting{n, &outage, 20 * time.Millisecond}
					}
				})
				ask := func(ctx context.Context, c *quorumlock.Client, most time.Duration) *fleet.Acquisition {
					return fleet.Start(ctx, t, func(ctx context.Context) (*quorumlock.Lease, error) {
						o := quorumlock.LockOptions{MaxOutage: most}
						if kind == "permits" {
							return c.Semaphore("job", 2).With(o).Acquire(ctx, 1)
						}
						return c.RWLock("job").With(o).Read().Acquire(ctx)
					})
				}
				var holders []*quorumlock.Lease
				if kind == "permits" {
					holders = append(holders, ask(t.Context(), f.Client(), 0).Has(), ask(t.Context(), f.Client(), 0).Has())
				} else {
					holders = append(holders, fleet.MustAcquire(t, f.Client().RWLock("job").Write()))
				}
				ctx, cancel := context.WithCancel(t.Context())
				first := ask(ctx, client, 0)
				time.Sleep(5 * time.Millisecond)
				var between []*fleet.Acquisition
				for range 3 * (len(holders) - 1) { // none beside readers
					between = append(between, ask(t.Context(), f.Client(), 0))
				}
				time.Sleep(5 * time.Millisecond)
				second := ask(t.Context(), client, 2*time.Second)
				time.Sleep(3 * time.Second)
				require.True(t, first.Waits() && second.Waits())

				outage.Store(true)
				if kind == "permits" {
					require.NoError(t, holders[0].Release(t.Context())) // which wakes the first
				} else {
					require.ErrorIs(t, func() error { a := ask(t.Context(), client, -1); <-a.Done; return a.Err }(), quorumlock.ErrNoQuorum)
				}
				time.Sleep(25 * time.Millisecond)
				cancel()
				<-first.Done
				outage.Store(false)
				time.Sleep(10 * time.Second)
				require.True(t, second.Waits(), "%v", second.Err)
				if kind == "permits" {
					third := ask(t.Context(), client, -1)
					time.Sleep(5 * time.Second)
					require.True(t, third.Waits(), "%v", third.Err)
				}

				outage.Store(true)
				require.NoError(t, holders[len(holders)-1].Release(t.Context()))
				time.Sleep(300 * time.Millisecond)
				outage.Store(false)
				for _, a := range between { // in any order, as they came at one moment
					go func() {
						<-a.Done
						_ = a.Lease.Release(context.Background())
					}()
				}
				<-second.Done
				require.NoError(t, second.Err)
			})
		})
	}
}

// Attempts are the rarer, the longer the links. An outage lasts through the pauses between them.
func TestMaxOutageOnSlowLinks(t *testing.T) {
	for _, spins := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			var outage atomic.Bool
			client := f.Client(func(cfg *quorumlock.Config) {
				for i, n := range f.Nodes {
					cfg.Nodes[i] = rejecting{n, &outage, 400 * time.Millisecond}
				}
			})
			lock := forOutage(client, 10*time.Second).With(quorumlock.LockOptions{Spin: spins})
			for range 20 {
				require.NoError(t, fleet.MustAcquire(t, lock).Release(t.Context()))
			}
			outage.Store(true)
			began := f.Clock.Now()
			for _, a := range []*fleet.Acquisition{fleet.StartAcquire(t.Context(), t, lock), fleet.StartAcquire(t.Context(), t, lock)} {
				<-a.Done
				require.ErrorIs(t, a.Err, quorumlock.ErrNoQuorum)
			}
			require.Less(t, f.Clock.Now()-began, 15*time.Second)
		})
	}
}

// wrongClock is a node that rejects each token, because its clock is an hour ahead.
type wrongClock struct{ *memory.Node }

func (n wrongClock) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	for i, op := range ops {
		if op.Kind == wire.Acquire {
			err := &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: node.ErrClock, Err: &node.ClockError{Ahead: -time.Hour, Limit: time.Minute}}
			replies[i] = wire.Reply{Err: err}
			continue
		}
		n.Node.Do(ctx, ops[i:i+1], replies[i:i+1])
	}
}

// A node whose clock is wrong rejects each token, and another node is down. That is an outage, too.
func TestRejectedTokensDoNotProlongAnOutage(t *testing.T) {
	for _, most := range []time.Duration{-1, 3 * time.Second} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			lock := forOutage(f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0] = wrongClock{f.Nodes[0]} }), most)
			f.Stop(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := f.Clock.Now()
			_, err := lock.Acquire(ctx)
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			require.Less(t, f.Clock.Now()-began, 5*time.Second)
		})
	}
}

// A client's clock is ahead by nearly MaxClockSkew, and for hand-overs it proposes tokens that are further ahead. Nodes
// reject such a block of tokens, and accept a single one. All of them answer, so nobody gives up.
func TestRejectedBlockOfTokensIsNoOutage(t *testing.T) {
	for _, most := range []time.Duration{-1, 0} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			lock := forOutage(f.Client(fleet.SkewedBy(f, 999850*time.Microsecond)), most)
			all := []*fleet.Acquisition{{Lease: fleet.MustAcquire(t, lock)}}
			soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			for range 3 {
				all = append(all, fleet.StartAcquire(soon, t, lock))
			}
			for i, one := range all {
				if i > 0 {
					<-one.Done
				}
				require.NoError(t, one.Err)
				time.Sleep(time.Millisecond)
				require.NoError(t, one.Lease.Release(t.Context()))
			}
		})
	}
}

// The nodes answer again, and a call of the same client that does not wait gets the lock. That ends the outage for those who
// wait, and they wait for its holder.
func TestTryAcquireEndsAnOutage(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var on atomic.Bool
		client := f.Client(func(cfg *quorumlock.Config) {
			for i, nd := range f.Nodes {
				cfg.Nodes[i] = rejecting{nd, &on, 0}
			}
		})
		on.Store(true)
		waits := []*fleet.Acquisition{fleet.StartAcquire(t.Context(), t, forOutage(client, time.Second))}
		time.Sleep(900 * time.Millisecond)
		on.Store(false)
		held, err := client.RedLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		waits = append(waits, fleet.StartAcquire(t.Context(), t, forOutage(client, -1)))
		time.Sleep(10 * time.Second)
		for _, w := range waits {
			require.True(t, w.Waits(), "%v", w.Err)
		}
		require.NoError(t, held.Release(t.Context()))
		for _, w := range waits {
			require.NoError(t, w.Has().Release(t.Context()))
		}
	})
}

// No MaxOutage, and a huge one, are no bound.
func TestUnboundedOutage(t *testing.T) {
	for _, most := range []time.Duration{0, math.MaxInt64} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			f.Stop(1, 2)
			waits := fleet.StartAcquire(t.Context(), t, forOutage(f.Client(), most))
			time.Sleep(time.Hour)
			require.True(t, waits.Waits(), "%v", waits.Err)
			f.Start(1, 2)
			require.Less(t, f.Elapsed(func() { <-waits.Done }), 2*time.Second)
			require.NoError(t, waits.Err)
			require.NoError(t, waits.Lease.Release(t.Context()))
		})
	}
}
