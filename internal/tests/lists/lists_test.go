// Package lists tests programs whose lists of nodes differ: in virtual time, on nodes in memory.
package lists_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// life is how long a node counts a list as in use. Clients tell it again each fleet.RecoveryTime.
const life = 3 * fleet.RecoveryTime

// on makes a client list some of the nodes, given by their numbers from 1.
func on(f *fleet.Fleet, numbers ...int) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		cfg.Nodes = nil
		for _, n := range numbers {
			cfg.Nodes = append(cfg.Nodes, f.Nodes[n-1])
		}
	}
}

// refused requires that a node refuses the list of the lock's client, and returns the cause.
func refused(t *testing.T, lock *quorumlock.Lock) *node.ListsError {
	t.Helper()
	err := fleet.MustBeRefused(t, lock)
	var cause *node.ListsError
	require.ErrorIs(t, err, node.ErrLists)
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	require.ErrorAs(t, err, &cause)
	return cause
}

func TestProgramsWithOtherListsAreRefused(t *testing.T) {
	for _, c := range []struct {
		first, second []int
		fine          bool
	}{
		{[]int{1, 2, 3}, []int{3, 1, 2}, true},
		{[]int{1, 2, 3}, []int{1, 2, 3, 4}, true},
		{[]int{1, 2, 3, 4}, []int{1, 2, 3, 4, 5}, true},
		{[]int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4}, true},
		{[]int{1}, []int{1, 2}, true},
		{[]int{1, 2, 3, 4}, []int{1, 2, 3, 5}, true},
		{[]int{1, 2, 3}, []int{1, 2, 3, 4, 5}, false},
		{[]int{1, 2, 3, 4, 5}, []int{1, 2, 3}, false},
		{[]int{1, 2, 3}, []int{1, 2, 4}, false},
		{[]int{1, 2, 3}, []int{3, 4, 5}, false}, // a majority of the second list never hears of the first one
		{[]int{1}, []int{1, 2, 3}, false},
		{[]int{1, 2}, []int{2, 3, 4, 5}, false},
		{[]int{1, 2, 3}, []int{4, 5, 6}, true}, // no node can know both
	} {
		t.Run(fmt.Sprint(c.first, " and ", c.second), func(t *testing.T) {
			fleet.InVirtualTime(t, 6, func(t *testing.T, f *fleet.Fleet) {
				first, second := f.Client(on(f, c.first...)), f.Client(on(f, c.second...))
				lease := fleet.MustAcquire(t, first.RedLock("job"))
				if c.fine {
					require.NoError(t, second.Ready(t.Context()))
					fleet.AcquireAndRelease(t, second.RedLock("other"))
					return
				}
				require.ErrorIs(t, second.Ready(t.Context()), node.ErrLists, "a probe asks before the first lock does")
				require.NoError(t, first.Ready(t.Context()))
				cause := refused(t, second.RedLock("other"))
				require.Len(t, cause.Own, len(c.second))
				require.Len(t, cause.Other, len(c.first))
				time.Sleep(time.Hour) // renewals keep the list in use
				_ = refused(t, second.RedLock("other"))
				require.ErrorIs(t, second.Latch("a").Set(t.Context(), 1), node.ErrLists)
				require.ErrorIs(t, second.Once("a", quorumlock.OnceOptions{Window: time.Second}).Do(t.Context(), func(context.Context) error { return nil }), node.ErrLists)
				_, err := second.Semaphore("a", 2).TryAcquire(t.Context(), 1)
				require.ErrorIs(t, err, node.ErrLists)
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Release(t.Context()))
				require.NoError(t, first.Close(t.Context()))
				time.Sleep(life + fleet.RecoveryTime)
				require.NoError(t, second.Ready(t.Context()), "the other list has run out")
			})
		})
	}
}

func TestErrorNamesBothLists(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first := f.Client(on(f, 1, 2, 3), func(cfg *quorumlock.Config) { cfg.Holder = "billing-7" })
		var told []error
		second := f.Client(func(cfg *quorumlock.Config) {
			cfg.Hooks.Acquisition = func(e quorumlock.AcquisitionEvent) { told = append(told, e.Err) }
		})
		fleet.AcquireAndRelease(t, first.RedLock("job"))
		began := f.Clock.Now()
		_, err := second.RedLock("job").Acquire(t.Context())
		text := regexp.MustCompile(`quorum: .*? \(`).ReplaceAllString(err.Error(), "quorum: some nodes (") // that depends on the order of the answers
		require.Equal(t, "quorumlock: acquire \"job\": no quorum: some nodes "+
			"(n1, n2, n3: acquire: lists of nodes differ: this program lists the nodes n1, n2, n3, n4, n5, and billing-7 lists n1, n2, n3 (only this one has n4, n5): "+
			"two majorities of these need not share a node, so each program could get the same lock. "+
			"Correct the list; to change it, add or remove one node at a time (docs/on-call.md), or stop all programs with the other list and wait 34s)", text)
		require.Equal(t, began, f.Clock.Now(), "a refusal is told at once")
		require.NoError(t, second.Close(t.Context()))
		require.Len(t, told, 1)

		aliases := f.Client(on(f, 1, 2, 4), func(cfg *quorumlock.Config) {
			for i := range 2 {
				cfg.Nodes[i] = &fleet.Spy{Node: f.Nodes[i], Alias: fmt.Sprint("10.0.0.", i)}
			}
		})
		_, err = aliases.RedLock("job").TryAcquire(t.Context())
		require.ErrorContains(t, err, "(only this one has n4, only the other one has n3)")
	})
}

// A list counts for as long as a lease that was granted under it may last, and no longer than is said.
func TestListRunsOut(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first, second := f.Client(on(f, 1, 2, 3)), f.Client()
		lease := fleet.MustAcquire(t, first.RedLock("job"))
		time.Sleep(time.Minute)
		_, err := lease.Detach()
		require.NoError(t, err)
		ended := f.Clock.Now()
		cause := refused(t, second.RedLock("job"))
		require.Greater(t, cause.Left, fleet.RecoveryTime, "the locks of a detached lease end in that time")
		require.LessOrEqual(t, cause.Left, life)
		time.Sleep(cause.Left - 100*time.Millisecond)
		_ = refused(t, second.RedLock("job"))
		time.Sleep(101 * time.Millisecond)
		fleet.AcquireAndRelease(t, second.RedLock("job"))
		require.LessOrEqual(t, f.Clock.Now()-ended, life)
		_ = refused(t, first.RedLock("job"))
	})
}

// A client that was idle for longer than its list counts asks all nodes again, before a majority without the node that
// knows better.
func TestIdleClientTellsItsListAgain(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		idle, other := f.Client(on(f, 1, 2, 3)), f.Client(on(f, 3, 4, 5))
		fleet.AcquireAndRelease(t, idle.RedLock("job"))
		time.Sleep(time.Hour)
		lease := fleet.MustAcquire(t, other.RedLock("job"))
		_ = refused(t, idle.RedLock("job"))
		require.NoError(t, lease.Release(t.Context()))
		time.Sleep(life)
		fleet.AcquireAndRelease(t, idle.RedLock("job"))
		_ = refused(t, other.RedLock("job"))
	})
}

// Two programs begin at the same moment, or one after the other, while nodes are slow. At most one gets a lease. If both are
// refused, that ends: one of them works, as long as it does.
func TestOneOfTwoProgramsGetsLeases(t *testing.T) {
	rng, runs := rand.New(rand.NewPCG(1, 2)), 40
	if testkit.Raced {
		runs = 10
	}
	for _, lists := range [][2][]int{{{1, 2, 3}, {3, 4, 5}}, {{1, 2, 3}, {1, 2, 3, 4, 5}}, {{1, 2, 3}, {1, 2, 4}}, {{1, 2, 3}, {2, 3, 4, 5, 6, 7}}} {
		for i := range runs {
			fleet.InVirtualTime(t, 7, func(t *testing.T, f *fleet.Fleet) {
				f.Client() // the nodes are set up
				var calls sync.WaitGroup
				var works [2]atomic.Bool
				for j, numbers := range lists {
					client := f.Client(on(f, numbers...), func(cfg *quorumlock.Config) {
						for k, n := range numbers {
							cfg.Nodes[k] = &fleet.Spy{Node: f.Nodes[n-1], Way: time.Duration(rng.IntN(220)) * time.Millisecond}
						}
					})
					began := time.Duration(j*i/20) * time.Duration(rng.IntN(int(time.Second)))
					calls.Go(func() {
						time.Sleep(began)
						for range 300 {
							if lease, err := client.RedLock("job").TryAcquire(t.Context()); err == nil {
								works[j].Store(true)
								require.False(t, works[1-j].Load())
								_ = lease.Release(t.Context())
							} else {
								require.ErrorIs(t, err, node.ErrLists)
							}
							time.Sleep(time.Second)
						}
					})
				}
				calls.Wait()
				require.NotEqual(t, works[0].Load(), works[1].Load())
			})
		}
	}
}

// A node has lost its memory, and then hears of another list first. The program that was there before loses its leases, as
// the other one may have the same locks.
func TestRefusalEndsLeases(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first := f.Client(on(f, 1, 2, 3))
		var refusals []error
		second := f.Client(on(f, 3, 4, 5), func(cfg *quorumlock.Config) {
			cfg.Hooks.NodeDown = func(_ string, err error) { refusals = append(refusals, err) }
		})
		lease := fleet.MustAcquire(t, first.RedLock("job"))
		waiter := fleet.StartAcquire(t.Context(), t, first.RedLock("job"))
		f.Nodes[2].Flush()
		began := f.Clock.Now()
		fleet.AcquireAndRelease(t, second.RedLock("another"))
		<-lease.Context().Done()
		require.Less(t, f.Clock.Now()-began, quorumlock.DefaultTTL)
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		require.ErrorIs(t, lease.Err(), node.ErrLists)
		<-waiter.Done
		require.ErrorIs(t, waiter.Err, node.ErrLists)
		for range 30 {
			time.Sleep(time.Second)
			fleet.AcquireAndRelease(t, second.RedLock("another"))
		}
		require.Empty(t, refusals, "a node that refuses a list is not down")
		f.RequireNoKeys()
	})
}

// A node that knows of another list cannot be reached at first. Once it can, the lease ends that was taken meanwhile.
func TestLateRefusalEndsLeases(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		fleet.AcquireAndRelease(t, f.Client(on(f, 1, 2, 3)).RedLock("job"))
		keeps := fleet.MustAcquire(t, f.Client(on(f, 1, 2, 3)).RedLock("job"))
		second, wires := f.SpiedClient(on(f, 3, 4, 5))
		wires[0].Severed.Store(true)
		lease := fleet.MustAcquire(t, second.RedLock("job"))
		time.Sleep(time.Hour)
		require.NoError(t, lease.Err())
		wires[0].Severed.Store(false)
		time.Sleep(quorumlock.DefaultTTL)
		require.ErrorIs(t, lease.Err(), node.ErrLists)
		require.NoError(t, keeps.Err())
	})
}

// A program that is refused by one node is noted by none, so it keeps nobody out: not even where a node has lost its memory.
func TestRefusedListKeepsNobodyOut(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first, second := f.Client(on(f, 1, 2, 3)), f.Client()
		lease := fleet.MustAcquire(t, first.RedLock("job"))
		for range 60 {
			f.Nodes[2].Flush()
			_ = refused(t, second.RedLock("more"))
			time.Sleep(time.Second)
			require.NoError(t, lease.Err())
			fleet.AcquireAndRelease(t, first.RedLock("another"))
		}
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, first.Close(t.Context()))
		time.Sleep(life)
		require.NoError(t, f.Client(on(f, 3, 4, 5)).Latch("a").Set(t.Context(), 1))
	})
}

// No program is refused because of what it, or one with the same list, said before.
func TestNoFalseAlarms(t *testing.T) {
	names := func(prefix string, f *fleet.Fleet) func(*quorumlock.Config) {
		return func(cfg *quorumlock.Config) {
			for i, nd := range f.Nodes {
				cfg.Nodes[i] = &fleet.Spy{Node: nd, Alias: fmt.Sprint(prefix, i)}
			}
		}
	}
	for what, happens := range map[string]func(f *fleet.Fleet){
		"nothing":                   func(*fleet.Fleet) {},
		"one node is flushed":       func(f *fleet.Fleet) { f.Nodes[1].Flush() },
		"one node is restarted":     func(f *fleet.Fleet) { f.Nodes[1].Crash() },
		"all nodes are flushed":     func(f *fleet.Fleet) { f.Nodes[0].Flush(); f.Nodes[1].Flush(); f.Nodes[2].Flush() },
		"a majority is restarted":   func(f *fleet.Fleet) { f.Nodes[0].Crash(); f.Nodes[1].Crash() },
		"a node fails over":         func(f *fleet.Fleet) { f.Nodes[2].Save(); f.Nodes[2].Crash() },
		"a node is away for a time": func(f *fleet.Fleet) { f.Stop(0); time.Sleep(time.Minute); f.Start(0) },
		"time passes":               func(*fleet.Fleet) { time.Sleep(time.Hour) },
	} {
		t.Run(what, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				clients := []*quorumlock.Client{f.Client(), f.Client(names("alias", f)), f.Client(names("10.0.0.", f))}
				for range 3 {
					for _, c := range clients {
						fleet.AcquireAndRelease(t, c.RedLock("job"))
					}
					happens(f)
					for _, c := range append(clients, f.Client(), f.Client(names("alias", f))) {
						lease, err := c.RedLock("job").Acquire(t.Context()) // which waits for recoveries
						require.NoError(t, err)
						require.NoError(t, lease.Release(t.Context()))
						fleet.Settle()
					}
					time.Sleep(fleet.RecoveryTime)
				}
			})
		})
	}
}

// A new server at the address of an old one is the same node of a list.
func TestReplacedServerAtTheSameAddress(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		old := f.Client()
		fleet.AcquireAndRelease(t, old.RedLock("job"))
		f.Stop(2)
		f.Nodes[2] = memory.New("n3", f.Clock)
		fresh := f.Client()
		for range 20 {
			fleet.AcquireAndRelease(t, fresh.RedLock("job"))
			fleet.AcquireAndRelease(t, old.RedLock("job"))
			time.Sleep(2 * time.Second)
		}
	})
}

// Applications with prefixes of their own may share nodes whatever else they list.
func TestPrefixesHaveListsOfTheirOwn(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		prefix := func(p string) func(*quorumlock.Config) {
			return func(cfg *quorumlock.Config) { cfg.Prefix = p }
		}
		fleet.AcquireAndRelease(t, f.Client(on(f, 1, 2, 3), prefix("a:")).RedLock("job"))
		fleet.AcquireAndRelease(t, f.Client(on(f, 3, 4, 5), prefix("b:")).RedLock("job"))
		_ = refused(t, f.Client(on(f, 3, 4, 5), prefix("a:")).RedLock("job"))
	})
}

// limited gives a client limits. A recovery of 0 is the default.
func limited(maxTTL, skew, recovery time.Duration) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		cfg.MaxTTL, cfg.MaxClockSkew, cfg.Recovery = maxTTL, skew, recovery
		cfg.TTL = min(cfg.TTL, maxTTL)
	}
}

// disagree requires that a node refuses the limits of the lock's client, and returns the cause.
func disagree(t *testing.T, lock *quorumlock.Lock) *node.SettingsError {
	t.Helper()
	err := fleet.MustBeRefused(t, lock)
	var cause *node.SettingsError
	require.ErrorIs(t, err, node.ErrSettings)
	require.ErrorAs(t, err, &cause)
	return cause
}

// The recovery of each program must be long enough for the TTLs and the clocks of the other.
func TestProgramsWithOtherLimitsAreRefused(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		one, other [3]time.Duration
		fit        bool
	}{
		{[3]time.Duration{10 * s, s}, [3]time.Duration{10 * s, s, 11 * s}, true},
		{[3]time.Duration{10 * s, s}, [3]time.Duration{10 * s, s, 60 * s}, true},
		{[3]time.Duration{10 * s, s}, [3]time.Duration{20 * s, s}, false},
		{[3]time.Duration{10 * s, s}, [3]time.Duration{9 * s, s}, false},
		{[3]time.Duration{10 * s, s}, [3]time.Duration{9 * s, s, 11 * s}, true},
		{[3]time.Duration{10 * s, s, 21 * s}, [3]time.Duration{20 * s, s}, true},
		{[3]time.Duration{10 * s, s, 21*s - time.Millisecond}, [3]time.Duration{20 * s, s}, false},
		{[3]time.Duration{10 * s, s}, [3]time.Duration{10 * s, 2 * s}, false},
		{[3]time.Duration{10 * s, s, 12 * s}, [3]time.Duration{10 * s, 2 * s}, true},
		{[3]time.Duration{10 * s, s, 12 * s}, [3]time.Duration{9 * s, 2 * s}, false},
		{[3]time.Duration{10 * s, s, 12 * s}, [3]time.Duration{9 * s, 2 * s, 12 * s}, true},
	} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			first := f.Client(limited(c.one[0], c.one[1], c.one[2]), func(cfg *quorumlock.Config) { cfg.Holder = "billing-7" })
			second := f.Client(limited(c.other[0], c.other[1], c.other[2]))
			lease := fleet.MustAcquire(t, first.RedLock("job"))
			if c.fit {
				require.ErrorIs(t, fleet.MustBeRefused(t, second.RedLock("job")), quorumlock.ErrHeld, c)
				require.NoError(t, lease.Release(t.Context()))
				fleet.AcquireAndRelease(t, second.RedLock("job"))
				return
			}
			began := f.Clock.Now()
			cause := disagree(t, second.RedLock("job"))
			require.Equal(t, began, f.Clock.Now(), "a refusal is told at once")
			require.Equal(t, "billing-7", cause.Holder)
			require.Equal(t, second.Config().Limits().Recovery(), cause.Own.Recovery())
			require.Equal(t, first.Config().Limits().Recovery(), cause.Other.Recovery())
			require.Equal(t, first.Config().Limits().MaxTTL, cause.Other.MaxTTL)
			require.NoError(t, lease.Err())
			time.Sleep(time.Minute)
			require.NoError(t, lease.Err(), "a program that is refused disturbs nobody")
			_ = disagree(t, second.RedLock("job"))
			require.NoError(t, lease.Release(t.Context()))
			require.NoError(t, first.Close(t.Context()))
			time.Sleep(cause.Left + 3*second.Config().Limits().Recovery())
			fleet.AcquireAndRelease(t, second.RedLock("job"))
		})
	}
}

// Programs move from limits to limits, each when all are on the ones before, while they work and nodes forget. A lock is never
// given while the lease before may last, and tokens grow. A step too far is refused, while programs of two steps before count.
func TestLimitsChangeInSteps(t *testing.T) {
	const s = time.Second
	steps := []func(*quorumlock.Config){
		limited(10*s, s, 0), limited(10*s, s, 33*s), limited(30*s, 3*s, 0), limited(10*s, s, 33*s), limited(10*s, s, 0),
	}
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, b := f.Client(steps[0]), f.Client(steps[0])
		var token uint64
		for i, step := range steps[1:] {
			next := f.Client(step)
			for _, two := range [][2]*quorumlock.Client{{a, next}, {next, a}, {b, a}} {
				former, later := two[0], two[1]
				other, err := later.RedLock("other").Acquire(t.Context()) // it waits for recoveries
				require.NoError(t, err, i)
				require.NoError(t, other.Release(t.Context()))
				longest := former.Config().MaxTTL
				lease, err := former.RedLock("job").With(quorumlock.LockOptions{TTL: longest, Fixed: true}).Acquire(t.Context())
				require.NoError(t, err, i)
				require.Greater(t, lease.Token(), token)
				token = lease.Token()
				fleet.Settle()
				for _, n := range f.Nodes {
					n.Flush()
				}
				successor, err := later.RedLock("job").Acquire(t.Context())
				require.NoError(t, err, i)
				require.Error(t, lease.Err(), "step %d: the lease before has ended", i)
				require.Greater(t, successor.Token(), token)
				token = successor.Token()
				require.NoError(t, successor.Release(t.Context()))
				fleet.Settle()
			}
			if i%2 == 0 {
				_ = disagree(t, f.Client(steps[i+2]).RedLock("job"))
			}
			require.NoError(t, a.Close(t.Context()))
			require.NoError(t, b.Close(t.Context()))
			a, b = next, f.Client(step)
			time.Sleep(33 * s) // the nodes have just forgotten everything
			for range 2 * 33 {
				fleet.AcquireAndRelease(t, a.RedLock("job"))
				time.Sleep(s)
			}
		}
	})
}

// A thousand leases cost no command more than their own, but for the list: once in a recovery's time on each node.
func TestListsCostOneCommandInAWhile(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, spies := f.SpiedClient()
		told := enlisted(spies)
		var exchanges atomic.Int64
		for _, s := range spies {
			s.After = func([]wire.Op) { exchanges.Add(1) }
		}
		f.Introduce(client)
		first, before := told(), exchanges.Load()
		require.LessOrEqual(t, first, 2*3, "two rounds, as the first one brings the ids of the nodes")
		began := f.Clock.Now()
		for range 1000 {
			fleet.AcquireAndRelease(t, client.RedLock("job"))
			time.Sleep(100 * time.Millisecond)
		}
		intervals := int((f.Clock.Now() - began) / fleet.RecoveryTime)
		assert.Equal(t, 3*intervals, told()-first)
		assert.LessOrEqual(t, exchanges.Load()-before, int64(2*1000*3+3*intervals))
	})
}

// A hung node delays the first call of a client, until it counts as down, and no other one.
func TestHungNodeDelaysTheFirstCallOnly(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		f.Pause(2)
		took := f.Elapsed(func() { fleet.AcquireAndRelease(t, client.RedLock("job")) })
		assert.LessOrEqual(t, took, 500*time.Millisecond)
		for range 100 {
			assert.Zero(t, f.Elapsed(func() {
				lease, err := client.RedLock("job").TryAcquire(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Release(t.Context()))
			}))
			time.Sleep(time.Second)
		}
		f.Resume(2)
	})
}

// A call that ends while nodes are told the list ends with its own error, and leaves nothing.
func TestCallGivenUpBeforeTheListIsKnown(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		for _, closes := range []bool{false, true} {
			for _, try := range []bool{false, true} {
				client, _ := f.DistantClient(100 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // the votes have come, and the ids have not gone out
				time.AfterFunc(250*time.Millisecond, func() {
					if closes {
						_ = client.Close(context.Background())
					}
				})
				acquire := client.RedLock("job").Acquire
				if try {
					acquire = client.RedLock("job").TryAcquire
				}
				_, err := acquire(ctx)
				cancel()
				require.NotErrorIs(t, err, node.ErrLists)
				if closes {
					require.ErrorIs(t, err, quorumlock.ErrClosed)
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				time.Sleep(time.Second)
				f.RequireNoKeys()
			}
		}
	})
}

// Reads ask nothing of other programs, so they need no list.
func TestRefusedProgramReads(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		fleet.AcquireAndRelease(t, f.Client(on(f, 1, 2, 3)).RedLock("job"))
		second, spies := f.SpiedClient()
		told := enlisted(spies)
		reads := func() {
			_, err := second.Latch("a").Count(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
			_, err = second.RedLock("job").Inspect(t.Context())
			require.NoError(t, err)
			_, err = second.Semaphore("s", 2).Inspect(t.Context())
			require.NoError(t, err)
			require.NoError(t, second.Once("a", quorumlock.OnceOptions{Window: time.Second}).Check(t.Context()))
		}
		reads()
		require.Zero(t, told())
		_ = refused(t, second.RedLock("job"))
		reads()
	})
}

// enlisted counts the commands that tell a list.
func enlisted(spies []*fleet.Spy) func() int {
	var told atomic.Int64
	for _, s := range spies {
		s.Set(func(s *fleet.Spy) {
			s.Before = func(ops []wire.Op) {
				for _, op := range ops {
					if op.Kind == wire.Enlist {
						told.Add(1)
					}
				}
			}
		})
	}
	return func() int { return int(told.Load()) }
}

// stubborn is a node that refuses to be told lists: its user lacks the right.
type stubborn struct{ node.Node }

func (s stubborn) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	s.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Enlist {
			replies[i] = wire.Reply{Err: &node.Error{Node: s.Name(), Op: op.Kind.String(), Reason: node.ErrAuth}}
		}
	}
}

// readOnly is a node whose server rejects the lists for now, as one without memory or replicas rejects all writes.
type readOnly struct {
	node.Node
	asked  atomic.Int64
	writes atomic.Bool
}

func (n *readOnly) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	time.Sleep(time.Millisecond)
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Enlist {
			n.asked.Add(1)
		}
		if !n.writes.Load() && (op.Kind == wire.Enlist || op.Kind == wire.Acquire) {
			replies[i] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: op.Kind.String(), Reason: node.ErrRejected}}
		}
	}
}

// A server that rejects writes is not asked about the list after each operation, but is once it grants something.
func TestNodeThatRejectsWritesIsRarelyAskedForTheList(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		rejects := &readOnly{Node: f.Nodes[0]}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0] = rejects })
		for range 200 {
			fleet.AcquireAndRelease(t, client.RedLock("job"))
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, rejects.asked.Load(), int64(20))
		before := rejects.asked.Load()
		rejects.writes.Store(true)
		time.Sleep(time.Second)
		fleet.AcquireAndRelease(t, client.RedLock("job"))
		time.Sleep(10 * time.Millisecond)
		require.Greater(t, rejects.asked.Load(), before)
	})
}

// A node that cannot note lists has no vote. Enough others suffice, to be ready too.
func TestNodesThatCannotNoteLists(t *testing.T) {
	for n := range 4 {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			client := f.Client(func(cfg *quorumlock.Config) {
				for i := range n {
					cfg.Nodes[i] = stubborn{f.Nodes[i]}
				}
			})
			ready := client.Ready(t.Context())
			for range 3 {
				if n < 2 {
					require.NoError(t, ready)
					fleet.AcquireAndRelease(t, client.RedLock("job"))
					require.NoError(t, client.Latch("a").Set(t.Context(), 1))
					continue
				}
				_, err := client.RedLock("job").Acquire(t.Context())
				for _, err := range []error{ready, err, fleet.MustBeRefused(t, client.RedLock("job")), client.Latch("a").Set(t.Context(), 1)} {
					require.ErrorIs(t, err, node.ErrAuth)
				}
			}
		})
	}
}

// A program waits through an outage, and its list runs out meanwhile. Another one holds the lock on two of three nodes. When
// the nodes come back, the first program hears of the other list before it counts the votes of the rest.
func TestAcquireThatWaitsThroughAnOutageTellsItsListAgain(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		for seed := range 3 {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				rng := rand.New(rand.NewPCG(uint64(seed), 5))
				waits, wires := f.SpiedClient()
				fleet.AcquireAndRelease(t, waits.RedLock("job"))
				for i, w := range wires {
					if hangs && i%2 == 0 {
						w.Slow.Store(int64(time.Hour))
					} else {
						w.Severed.Store(true)
					}
				}
				call := fleet.StartAcquire(t.Context(), t, waits.RedLock("job"))
				time.Sleep(2*life + time.Duration(rng.Int64N(int64(time.Second))))
				holds, others := f.SpiedClient(on(f, 1, 2, 3))
				others[2].Severed.Store(true) // so node 3 cannot warn of its list
				_ = fleet.MustAcquire(t, holds.RedLock("job"))
				time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
				for _, w := range wires {
					w.Slow.Store(0)
					w.Severed.Store(false)
				}
				<-call.Done
				require.ErrorIs(t, call.Err, node.ErrLists)
			})
		}
	}
}

// Nodes come back while an attempt is under way, which the others have won by then.
func TestNodeThatComesBackDuringAnAttempt(t *testing.T) {
	for way := range 10 {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			client, wires := f.SpiedClient()
			wires[0].Severed.Store(true)
			wires[1].Severed.Store(true)
			fleet.AcquireAndRelease(t, client.RedLock("job")) // on 3, 4 and 5
			holds, others := f.SpiedClient(on(f, 1, 2, 3))
			others[2].Severed.Store(true)
			_ = fleet.MustAcquire(t, holds.RedLock("job"))
			time.Sleep(time.Minute)
			for i, w := range wires {
				w.Severed.Store(false)
				w.Slow.Store(int64(time.Duration((2-i)*way) * 5 * time.Millisecond)) // 1 and 2 are the slowest
			}
			_, err := client.RedLock("job").TryAcquire(t.Context())
			require.ErrorIs(t, err, node.ErrLists)
		})
	}
}

// forgetful is a node that always tells of a list which agrees with the client's, and notes nothing.
type forgetful struct {
	node.Node
	asked atomic.Int64
}

func (n *forgetful) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Enlist {
			n.asked.Add(1)
			replies[i].List.Others = []wire.List{op.List.Own}
		}
	}
}

// A faulty node that brings news again and again is not asked without end, and stops nobody.
func TestNodeThatNeverNotesLists(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		faulty := &forgetful{Node: f.Nodes[0]}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Nodes[0] = faulty })
		fleet.AcquireAndRelease(t, client.RedLock("job"))
		require.Less(t, faulty.asked.Load(), int64(10))
	})
}

// A refusal ends when the other list is no longer in use, also for a client of one node.
func TestLoneClientIsServedOnceTheOtherListHasRunOut(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fleet.AcquireAndRelease(t, f.Client().RedLock("job"))
		lone := f.Client(on(f, 1))
		_ = refused(t, lone.RedLock("job"))
		time.Sleep(time.Hour)
		fleet.AcquireAndRelease(t, lone.RedLock("job"))
	})
}

// A node that refused, and then went down for a time or for ever, keeps the client out no longer than the other list counts.
func TestRefusalByANodeThatIsDownRunsOut(t *testing.T) {
	for _, returns := range []bool{false, true} {
		t.Run(fmt.Sprint(returns), func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				fleet.AcquireAndRelease(t, f.Client(on(f, 1, 2, 3)).RedLock("job"))
				second := f.Client()
				_ = refused(t, second.RedLock("job"))
				f.Stop(0)
				_ = refused(t, second.RedLock("job"))
				time.Sleep(time.Hour)
				if returns {
					f.Start(0)
				}
				fleet.AcquireAndRelease(t, second.RedLock("job"))
			})
		})
	}
}

// All were idle until the nodes forgot their ids. A new program with other names comes first, and the nodes get other ids.
func TestNewNamesAfterATimeWithoutUse(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		old := f.Client()
		fleet.AcquireAndRelease(t, old.RedLock("job"))
		time.Sleep(time.Hour)
		fleet.AcquireAndRelease(t, f.Client(func(cfg *quorumlock.Config) {
			for i, nd := range f.Nodes {
				cfg.Nodes[i] = &fleet.Spy{Node: nd, Alias: fmt.Sprint("alias", i)}
			}
		}).RedLock("job"))
		fleet.AcquireAndRelease(t, old.RedLock("job"))
	})
}

// judged is a node that takes a while to answer probes, and counts the locks that it grants to a client whose list it has not
// noted.
type judged struct {
	node.Node
	takes         time.Duration
	until, grants *atomic.Int64
}

func (n judged) Probe(ctx context.Context) error {
	time.Sleep(n.takes)
	return n.Node.Probe(ctx)
}

func (n judged) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	began := time.Now()
	n.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		switch reply := replies[i]; {
		case op.Kind == wire.Enlist && reply.Err == nil && op.List.Own.Left > 0 && len(reply.List.Others) == 0:
			n.until.Store(began.Add(op.List.Own.Left).UnixNano())
		case op.Kind == wire.Acquire && reply.Outcome == wire.Granted && time.Now().UnixNano() >= n.until.Load():
			n.grants.Add(1)
		}
	}
}

// Too few nodes answer about the list for the client to note it, and then more of them answer the attempt. They grant nothing
// before they have noted the list, because a program with another list could get the same lock until then.
func TestNodesThatComeBackBetweenTheListAndTheAttempt(t *testing.T) {
	for _, list := range [][]int{{1, 2, 3}, {1, 2, 4, 5, 3}} {
		taken := 0
		for way := range 40 {
			fleet.InVirtualTime(t, 7, func(t *testing.T, f *fleet.Fleet) {
				var grants atomic.Int64
				wires := make([]*fleet.Spy, len(list))
				first := f.Client(on(f, list...), func(cfg *quorumlock.Config) {
					for i, n := range list { // they come back one after the other
						wires[i] = &fleet.Spy{Node: f.Nodes[n-1]}
						cfg.Nodes[i] = judged{wires[i], time.Duration(i) * 5 * time.Millisecond, new(atomic.Int64), &grants}
					}
				})
				down, last := wires[:len(list)-1], wires[len(list)-1]
				for _, w := range down {
					w.Severed.Store(true)
				}
				for range 6 { // the next probe is due in a while then
					time.Sleep(time.Second)
					_, err := first.RedLock("job").TryAcquire(t.Context())
					require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
				}
				for _, w := range down {
					w.Severed.Store(false)
				}
				last.Slow.Store(int64(30 * time.Millisecond))
				time.Sleep(time.Duration(way) * 12 * time.Millisecond)
				grants.Store(0)
				lease, err := first.RedLock("job").TryAcquire(t.Context())
				require.LessOrEqual(t, grants.Load(), int64(len(list)/2))
				if err != nil {
					return
				}
				taken++
				_ = refused(t, f.Client(on(f, 3, 6, 7)).RedLock("job"))
				require.NoError(t, lease.Err())
			})
		}
		require.Positive(t, taken)
	}
}

// A node forgets the list in the round in which it has noted that, and then notes another program's. A client that hears of the
// loss within the round trusts its list only after the next one.
func TestListForgottenInTheRoundThatNotesIt(t *testing.T) {
	fleet.InVirtualTime(t, 7, func(t *testing.T, f *fleet.Fleet) {
		client, wires := f.SpiedClient(on(f, 1, 2, 3, 4, 5))
		lease := fleet.MustAcquire(t, client.RedLock("other"))
		forget := func() {
			f.Nodes[4].Flush()
			require.NoError(t, lease.Extend(t.Context())) // the client hears of it
		}
		wires[0].Slow.Store(int64(200 * time.Millisecond)) // each round lasts as long
		forget()                                           // so the client asks the nodes, and then makes them note its list
		time.Sleep(250 * time.Millisecond)
		forget()
		second := fleet.MustAcquire(t, f.Client(on(f, 5, 6, 7)).RedLock("job"))
		time.Sleep(200 * time.Millisecond) // the third round is under way
		_, err := client.RedLock("job").TryAcquire(t.Context())
		require.ErrorIs(t, err, node.ErrLists)
		require.NoError(t, second.Err())
	})
}

// Programs whose limits differ, and fit, begin together: each round brings the list of another one. All are served at the first
// try, because the nodes work, and no list speaks against another.
func TestManyProgramsBeginTogether(t *testing.T) {
	for _, programs := range []int{6, 12, 24} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			var calls sync.WaitGroup
			for i := range programs {
				client, wires := f.SpiedClient(limited(10*time.Second+time.Duration(i)*time.Millisecond, time.Second, 40*time.Second))
				for j, w := range wires {
					w.Slow.Store(int64(time.Duration(1+(i*7+j*13)%40) * time.Millisecond))
				}
				calls.Go(func() {
					lease, err := client.RedLock(fmt.Sprint("job", i)).TryAcquire(t.Context())
					if assert.NoError(t, err) {
						assert.NoError(t, lease.Release(t.Context()))
					}
				})
			}
			calls.Wait()
		})
	}
}
