package lease_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

var fixed = quorumlock.LockOptions{Fixed: true}

// left is a lease that a process has acquired and detached.
func left(t *testing.T, l *quorumlock.Lock) *quorumlock.Lease {
	t.Helper()
	lease := fleet.MustAcquire(t, l)
	require.NoError(t, lease.Detach())
	return lease
}

// resumed takes over a lease in another client.
func resumed(t *testing.T, l *quorumlock.Lock, from *quorumlock.Lease) *quorumlock.Lease {
	t.Helper()
	lease, err := l.Resume(t.Context(), from.Owner(), from.Token())
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Err() }) // it is not garbage before
	return lease
}

// One process acquires and detaches, and another one resumes. No remains of the first, alive, closed or dead, end the
// lease of the second.
func TestResumeInAnotherProcess(t *testing.T) {
	for name, lock := range map[string]func(*quorumlock.Client) *quorumlock.Lock{
		"RedLock":   func(c *quorumlock.Client) *quorumlock.Lock { return c.RedLock("job").With(fixed) },
		"MultiLock": func(c *quorumlock.Client) *quorumlock.Lock { return c.MultiLock("job", "other").With(fixed) },
		"RWLock":    func(c *quorumlock.Client) *quorumlock.Lock { return c.RWLock("job").With(fixed).Write() },
		"with a hold": func(c *quorumlock.Client) *quorumlock.Lock {
			return c.RedLock("job").With(quorumlock.LockOptions{Fixed: true, MinHold: 9 * time.Second})
		},
	} {
		for how, end := range map[string]func(*testing.T, *quorumlock.Client, []*fleet.Wire){
			"lives on": func(*testing.T, *quorumlock.Client, []*fleet.Wire) {},
			"closes":   func(t *testing.T, c *quorumlock.Client, _ []*fleet.Wire) { require.NoError(t, c.Close(t.Context())) },
			"dies": func(_ *testing.T, _ *quorumlock.Client, wires []*fleet.Wire) {
				for _, w := range wires {
					w.Severed.Store(true)
				}
			},
			"is slow": func(*testing.T, *quorumlock.Client, []*fleet.Wire) {},
		} {
			for _, n := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s of %d, the first %s", name, n, how), func(t *testing.T) {
					fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) {
						handler, wires := f.WiredClient()
						first := fleet.MustAcquire(t, lock(handler))
						time.Sleep(time.Second)
						if how == "is slow" {
							for _, w := range wires {
								w.Slow.Store(int64(100 * time.Millisecond))
							}
						}
						require.NoError(t, first.Detach())
						worker := f.Client()
						second := resumed(t, lock(worker), first)
						end(t, handler, wires)
						require.Equal(t, first.Owner(), second.Owner())
						require.Equal(t, first.Token(), second.Token())
						require.Equal(t, first.Names(), second.Names())
						require.Equal(t, quorumlock.DefaultTTL-quorum.Drift(quorumlock.DefaultTTL), second.Remaining())
						fleet.Settle() // a majority suffices for the lease
						have, want := second.Backing()
						require.Equal(t, []int{n, n}, []int{have, want})
						token, ok := lock(worker).Token(second.Context())
						require.True(t, ok)
						require.Equal(t, first.Token(), token)

						wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
						for range 5 { // far beyond the time of the first lease
							time.Sleep(6 * time.Second)
							require.NoError(t, second.ExtendFor(t.Context(), quorumlock.DefaultTTL))
						}
						time.Sleep(second.Remaining() - 1)
						require.NoError(t, second.Context().Err())
						require.True(t, wait.Waits(), "the nodes keep the lock")
						require.NoError(t, second.Release(t.Context()))
						next := wait.Has()
						require.Greater(t, next.Token(), second.Token())
						_, err := lock(worker).Resume(t.Context(), first.Owner(), first.Token())
						require.Equal(t, quorumlock.LossForced, lossOf(t, err).Cause)
						require.NoError(t, next.Release(t.Context()))
					})
				})
			}
		}
	}
}

// A resumed lease ends no later than the nodes keep the lock, and its end is a loss as of any Fixed lease.
func TestResumedLeaseExpires(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		first := left(t, f.Client().RedLock("job").With(fixed))
		worker, wires := f.WiredClient()
		for _, w := range wires {
			w.Muted.Store(int64(200 * time.Millisecond))
		}
		second := resumed(t, worker.RedLock("job").With(fixed), first)
		require.Equal(t, quorumlock.DefaultTTL-quorum.Drift(quorumlock.DefaultTTL)-200*time.Millisecond, second.Remaining(), "it counts from the sending")
		wait := fleet.StartAcquire(t.Context(), t, f.Client().RedLock("job"))
		time.Sleep(second.Remaining() - 1)
		require.NoError(t, second.Err())
		require.True(t, wait.Waits())
		time.Sleep(time.Nanosecond)
		require.Equal(t, quorumlock.LossExpired, lossOf(t, second.Err()).Cause)
		<-wait.Done
		require.NoError(t, wait.Lease.Release(t.Context()))
	})
}

// A lease that has ended cannot be resumed, and no lock is put back.
func TestResumeOfWhatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(t *testing.T, f *fleet.Fleet, lock *quorumlock.Lock, lease *quorumlock.Lease)
		cause quorumlock.LossCause
	}{
		"expired": {func(t *testing.T, _ *fleet.Fleet, _ *quorumlock.Lock, lease *quorumlock.Lease) {
			require.NoError(t, lease.Detach())
			time.Sleep(quorumlock.DefaultTTL)
		}, quorumlock.LossGone},
		"released": {func(t *testing.T, _ *fleet.Fleet, _ *quorumlock.Lock, lease *quorumlock.Lease) {
			require.NoError(t, lease.Release(t.Context()))
		}, quorumlock.LossGone},
		"released by force": {func(t *testing.T, _ *fleet.Fleet, lock *quorumlock.Lock, _ *quorumlock.Lease) {
			_, err := lock.ForceRelease(t.Context())
			require.NoError(t, err)
		}, quorumlock.LossForced},
		"its owner was released": {func(t *testing.T, _ *fleet.Fleet, lock *quorumlock.Lock, lease *quorumlock.Lease) {
			_, err := lock.ReleaseOwner(t.Context(), lease.Owner())
			require.NoError(t, err)
		}, quorumlock.LossForced},
		"taken by another": {func(t *testing.T, f *fleet.Fleet, _ *quorumlock.Lock, lease *quorumlock.Lease) {
			require.NoError(t, lease.Release(t.Context()))
			next := fleet.MustAcquire(t, f.Client().RedLock("job"))
			t.Cleanup(func() { _ = next.Err() })
		}, quorumlock.LossTaken},
	} {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				lock := f.Client().RedLock("job").With(fixed)
				lease := fleet.MustAcquire(t, lock)
				c.end(t, f, lock, lease)
				fleet.Settle()
				before := f.Keys()
				_, err := f.Client().RedLock("job").With(fixed).Resume(t.Context(), lease.Owner(), lease.Token())
				require.Equal(t, c.cause, lossOf(t, err).Cause, err)
				fleet.Settle()
				require.Equal(t, before, f.Keys(), "nothing is put back")
			})
		})
	}
}

// A late renewal may put a lock back on all nodes. That proves nothing: another owner has had a larger token since.
func TestResumeRevivesNothingThatALateOperationPutBack(t *testing.T) {
	for _, kind := range []node.Kind{node.Renew, node.Acquire} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			lock := f.Client().RedLock("job").With(fixed)
			lease := fleet.MustAcquire(t, lock)
			require.NoError(t, lease.Release(t.Context()))
			fleet.AcquireAndRelease(t, f.Client().RedLock("job"))
			for _, nd := range f.Nodes {
				replies := make([]node.Reply, 1)
				nd.Do(t.Context(), []node.Op{{
					Kind: kind, Names: lease.Names(), Owner: lease.Owner(), Token: lease.Token(), TTL: quorumlock.DefaultTTL, Limits: f.Limits,
				}}, replies)
				require.NoError(t, replies[0].Err)
			}
			require.Equal(t, 3, f.Keys())
			_, err := lock.Resume(t.Context(), lease.Owner(), lease.Token())
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			require.ErrorContains(t, err, "a late operation put it back")
		})
	}
}

// A node that has lost its memory proves nothing, even if it has the lock, and even after its recovery. A majority of
// others does.
func TestResumeCountsNoNodeThatForgot(t *testing.T) {
	for lost, resumes := range map[int]bool{1: true, 2: false, 3: false} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			first := fleet.MustAcquire(t, f.Client().RedLock("job").With(fixed))
			for _, nd := range f.Nodes[:lost] {
				nd.Save()
				nd.Crash()
				nd.Start()
			}
			if lost == 1 {
				f.Nodes[0].Flush()
			}
			require.NoError(t, first.Extend(t.Context()), "the holder re-asserts its lock")
			require.NoError(t, first.Detach())
			second, err := f.Client().RedLock("job").With(fixed).Resume(t.Context(), first.Owner(), first.Token())
			if !resumes {
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
				require.ErrorIs(t, err, node.ErrRecovering)
				// A restart may have brought back a lock that was released before. It must not last until the end of the
				// recovery by the calls of Resume alone.
				for range 6 {
					time.Sleep(2 * time.Second)
					_, err = f.Client().RedLock("job").With(fixed).Resume(t.Context(), first.Owner(), first.Token())
					require.Error(t, err)
				}
				require.Equal(t, quorumlock.LossGone, lossOf(t, err).Cause)
				time.Sleep(quorumlock.DefaultTTL)
				f.RequireNoKeys()
				return
			}
			require.NoError(t, err)
			have, _ := second.Backing()
			require.Equal(t, 2, have)
			require.NoError(t, second.Release(t.Context()))
			f.RequireNoKeys()
		})
	}
}

// A few nodes may have an earlier proposal of the acquisition instead of the token: the last one did not reach them. They
// prove nothing, neither that the lease is over nor that the token is wrong.
func TestResumeBesideAnEarlierProposal(t *testing.T) {
	for earlier, want := range map[int]error{1: quorumlock.ErrNoQuorum, 2: quorumlock.ErrInvalid} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			lock := f.Client().RedLock("job").With(fixed)
			first := left(t, lock)
			fleet.Settle()
			do := func(i int, kind node.Kind, token uint64) {
				t.Helper()
				replies := make([]node.Reply, 1)
				f.Nodes[i].Do(t.Context(), []node.Op{{
					Kind: kind, Names: first.Names(), Owner: first.Owner(), Token: token, TTL: quorumlock.DefaultTTL, Limits: f.Limits,
				}}, replies)
				require.NoError(t, replies[0].Err)
			}
			do(2, node.Release, 0)
			for i := range earlier {
				do(i, node.Release, 0)
				do(i, node.Acquire, first.Token()-1)
			}
			_, err := f.Client().RedLock("job").With(fixed).Resume(t.Context(), first.Owner(), first.Token())
			require.ErrorIs(t, err, want)
			if earlier == 1 {
				require.NotErrorIs(t, err, quorumlock.ErrInvalid)
				require.ErrorContains(t, err, "the owner holds the lock with another token")
			}
		})
	}
}

// Nodes that do not answer leave it open whether the lease is valid. A later call can succeed.
func TestResumeWithoutAMajority(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first := left(t, f.Client().RedLock("job").With(fixed))
		client := f.Client()
		lock := client.RedLock("job").With(fixed)
		f.Stop(0, 1, 2)
		_, err := lock.Resume(t.Context(), first.Owner(), first.Token())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Start(0, 1, 2)
		f.Pause(3, 4, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err = lock.Resume(ctx, first.Owner(), first.Token())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		f.Resume(2, 3, 4)
		time.Sleep(2 * time.Second)
		second := resumed(t, lock, first)
		fleet.Settle()
		f.Stop(0, 1)
		require.NoError(t, second.Extend(t.Context()))
		require.NoError(t, second.Release(t.Context()))
		f.Start(0, 1)
		time.Sleep(quorumlock.DefaultTTL)
		f.RequireNoKeys()

		require.NoError(t, client.Close(t.Context()))
		_, err = lock.Resume(t.Context(), first.Owner(), first.Token())
		require.ErrorIs(t, err, quorumlock.ErrClosed)
	})
}

func TestResumeRejects(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lock := client.RedLock("job").With(fixed)
		first := left(t, lock)
		for name, resume := range map[string]func() (*quorumlock.Lease, error){
			"not Fixed": func() (*quorumlock.Lease, error) {
				return client.RedLock("job").Resume(t.Context(), first.Owner(), first.Token())
			},
			"a reader": func() (*quorumlock.Lease, error) {
				return client.RWLock("job").With(fixed).Read().Resume(t.Context(), first.Owner(), first.Token())
			},
			"no owner":      func() (*quorumlock.Lease, error) { return lock.Resume(t.Context(), "", first.Token()) },
			"all readers":   func() (*quorumlock.Lease, error) { return lock.Resume(t.Context(), node.Readers, first.Token()) },
			"no token":      func() (*quorumlock.Lease, error) { return lock.Resume(t.Context(), first.Owner(), 0) },
			"a nil context": func() (*quorumlock.Lease, error) { return lock.Resume(nil, first.Owner(), first.Token()) }, //nolint:staticcheck // the test needs a nil context
			"another token": func() (*quorumlock.Lease, error) { return lock.Resume(t.Context(), first.Owner(), first.Token()+1) },
		} {
			_, err := resume()
			require.ErrorIs(t, err, quorumlock.ErrInvalid, name)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := lock.Resume(ended, first.Owner(), first.Token())
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, resumed(t, lock, first).Release(t.Context()))
	})
}

// If the first process has not left its lease, both hold one lease. Once the second has released it, the first cannot
// put it back, and learns of it.
func TestResumeOfALeaseInUse(t *testing.T) {
	for _, o := range []quorumlock.LockOptions{fixed, {}} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			first := fleet.MustAcquire(t, f.Client().RedLock("job").With(o))
			second := resumed(t, f.Client().RedLock("job").With(fixed), first)
			time.Sleep(time.Second)
			require.NoError(t, first.Extend(t.Context()))
			require.NoError(t, second.Extend(t.Context()))
			require.NoError(t, second.Release(t.Context()))
			next := fleet.MustAcquire(t, f.Client().RedLock("job"))
			require.NoError(t, next.Release(t.Context()))
			require.Equal(t, quorumlock.LossForced, lossOf(t, first.Extend(t.Context())).Cause)
			f.RequireNoKeys()

			// The other way round, the second learns of it at its own release.
			first = fleet.MustAcquire(t, f.Client().RedLock("job").With(o))
			second = resumed(t, f.Client().RedLock("job").With(fixed), first)
			require.NoError(t, first.Release(t.Context()))
			require.Equal(t, quorumlock.LossGone, lossOf(t, second.Release(t.Context())).Cause)
		})
	}
}

// A resumed lease can be left to a third process, and the hook tells of each holder.
func TestResumeFromHandToHand(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var held, told atomic.Int64
		client := func() *quorumlock.Client {
			return f.Client(func(cfg *quorumlock.Config) {
				cfg.Hooks.Acquired = func(e quorumlock.AcquiredEvent) {
					held.Add(1)
					if e.Resumed {
						told.Add(1)
					}
				}
				cfg.Hooks.Ended = func(quorumlock.EndedEvent) { held.Add(-1) }
			})
		}
		lease := fleet.MustAcquire(t, client().RedLock("job").With(fixed))
		for range 4 {
			time.Sleep(8 * time.Second)
			require.NoError(t, lease.Detach())
			lease = resumed(t, client().RedLock("job").With(fixed), lease)
		}
		fleet.Settle()
		require.Equal(t, []int64{1, 4}, []int64{held.Load(), told.Load()})
		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle()
		require.Zero(t, held.Load())
		f.RequireNoKeys()
	})
}

// A late operation may put an owner back after its forced release. No client can resume that lease, even if the nodes
// have no other owner.
func TestResumeRevivesNoOwnerThatWasReleasedByForce(t *testing.T) {
	for how, end := range map[string]func(*testing.T, *fleet.Fleet, *quorumlock.Lease){
		"by its owner id": func(t *testing.T, f *fleet.Fleet, lease *quorumlock.Lease) {
			_, err := f.Client().RedLock("job").ReleaseOwner(t.Context(), lease.Owner())
			require.NoError(t, err)
		},
		"whoever it is": func(t *testing.T, f *fleet.Fleet, _ *quorumlock.Lease) {
			_, err := f.Client().RedLock("job").ForceRelease(t.Context())
			require.NoError(t, err)
		},
		"as a resumed lease": func(t *testing.T, f *fleet.Fleet, lease *quorumlock.Lease) {
			require.NoError(t, resumed(t, f.Client().RedLock("job").With(fixed), lease).Release(t.Context()))
		},
	} {
		for kind, late := range map[node.Kind]time.Duration{
			node.Acquire: quorumlock.DefaultTTL - time.Second, // nodes refuse a later one, as its token is too old
			node.Renew:   quorumlock.DefaultTTL + 500*time.Millisecond,
		} {
			t.Run(fmt.Sprintf("%s, %v", how, kind), func(t *testing.T) {
				fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
					lease := left(t, f.Client().RedLock("job").With(fixed))
					end(t, f, lease)
					time.Sleep(late)
					for _, nd := range f.Nodes {
						replies := make([]node.Reply, 1)
						nd.Do(t.Context(), []node.Op{{
							Kind: kind, Names: lease.Names(), Owner: lease.Owner(), Token: lease.Token(), TTL: quorumlock.DefaultTTL, Limits: f.Limits,
						}}, replies)
						require.NoError(t, replies[0].Err)
					}
					for range 20 {
						time.Sleep(time.Second)
						_, err := f.Client().RedLock("job").With(fixed).Resume(t.Context(), lease.Owner(), lease.Token())
						require.Error(t, err)
					}
				})
			})
		}
	}
}

// TestBackingOfALeaseThatIsResumed: nodes answer one after another, and no hook reports a small backing meanwhile.
func TestBackingOfALeaseThatIsResumed(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first := fleet.MustAcquire(t, f.Client().RedLock("job").With(fixed))
		var told []int
		client, wires := f.WiredClient(func(cfg *quorumlock.Config) {
			cfg.Hooks.BackingChanged = func(e quorumlock.BackingEvent) { told = append(told, e.Have) }
		})
		for i, w := range wires {
			w.Muted.Store(int64(i+1) * int64(time.Millisecond))
		}
		lease := resumed(t, client.RedLock("job").With(fixed), first)
		time.Sleep(time.Second)
		fleet.Settle()
		require.Empty(t, told)
		require.NoError(t, lease.Release(t.Context()))

		first = fleet.MustAcquire(t, f.Client().RedLock("job").With(fixed))
		fleet.Settle()
		f.Free("job", first.Owner(), 4)
		lease = resumed(t, client.RedLock("job").With(fixed), first)
		time.Sleep(time.Second)
		fleet.Settle()
		require.Equal(t, []int{4}, told)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// TestResumedLeaseIsNotDowngraded: its former holder may still write, and readers would read beside it.
func TestResumedLeaseIsNotDowngraded(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		first := fleet.MustAcquire(t, f.Client().RWLock("job").With(fixed).Write())
		other := f.Client().RWLock("job").With(fixed)
		second := resumed(t, other.Write(), first)
		var invalid *quorumlock.InvalidError
		require.ErrorAs(t, other.Downgrade(t.Context(), second), &invalid)
		require.NoError(t, first.Extend(t.Context()))
		require.NoError(t, second.Release(t.Context()))
		require.Equal(t, quorumlock.LossForced, lossOf(t, first.Extend(t.Context())).Cause)
	})
}
