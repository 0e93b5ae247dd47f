package kinds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestRenewalKeepsALease(t *testing.T) {
	forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
		lease, rival := k.holder(f.Client(), none).has(t), k.rival(f.Client(), none)
		for range 200 {
			time.Sleep(time.Second)
			require.NoError(t, lease.Err())
			require.GreaterOrEqual(t, lease.Remaining(), quorumlock.DefaultTTL/2, "the lease is renewed after a third of its TTL")
			rival.isRefused(t)
		}
		fleet.Settle()
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
		time.Sleep(time.Minute)
		require.Zero(t, f.Keys(), "no renewal outlives the release")
	})
}

// A dead holder releases nothing and wakes no waiter. The waiters know when its lock expires, and the first one
// acquires it then. The test has no jitter, which would delay a waiter that asked just before the expiry.
func TestWaiterAcquiresWhenDeadHolderExpires(t *testing.T) {
	forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
		client, wires := f.SpiedClient()
		dead := k.holder(client, none).has(t)
		for _, w := range wires {
			w.Severed.Store(true)
		}
		var waits []*fleet.Acquisition
		for range 3 {
			waits = append(waits, k.rival(f.Client(even), none).starts(t.Context(), t))
			time.Sleep(time.Millisecond)
		}
		took := f.Elapsed(func() { <-waits[0].Done })
		require.InDelta(t, quorumlock.DefaultTTL.Seconds(), took.Seconds(), 0.02)
		require.ErrorIs(t, dead.Err(), quorumlock.ErrLost)
		for _, w := range waits {
			<-w.Done
			require.NoError(t, w.Err)
			require.NoError(t, w.Lease.Release(t.Context()))
		}
	})
}

// even takes the chance out of a client's pauses.
func even(cfg *quorumlock.Config) { cfg.Jitter = func() float64 { return 0.5 } }

// Waiters that give up leave no entries in the queues, whether an attempt of theirs is under way or not. The waiter
// behind them is woken by the release. The test has no jitter: after the shortest pause, paused nodes have already
// failed to answer, and a waiter that gives up then says that no quorum is there.
func TestCancelledWaitersLeaveTheQueues(t *testing.T) {
	gone := errors.New("no longer wanted")
	for _, paused := range []int{0, 2, 5} {
		forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
			lease, rivals := k.holder(f.Client(), none).has(t), f.Client(even)
			ctx, cancel := context.WithCancelCause(t.Context())
			waits := []*fleet.Acquisition{k.rival(rivals, none).starts(ctx, t), k.rival(rivals, none).starts(ctx, t)}
			next := k.rival(f.Client(), none).starts(t.Context(), t)
			f.Pause(fleet.FirstNodes(paused)...)
			time.Sleep(1001 * time.Millisecond) // Wait until an attempt is in flight.
			cancel(gone)
			for _, w := range waits {
				<-w.Done
				require.ErrorIs(t, w.Err, gone)
				require.ErrorIs(t, w.Err, context.Canceled)
				require.ErrorIs(t, w.Err, quorumlock.ErrHeld)
			}
			f.Resume(fleet.FirstNodes(paused)...)
			time.Sleep(2 * time.Second)
			require.Equal(t, 5, k.waiters(f), "only the next waiter is in the queues")
			require.Less(t, f.Elapsed(func() {
				require.NoError(t, lease.Release(t.Context()))
				<-next.Done
			}), 10*time.Millisecond)
			require.NoError(t, next.Err)
			require.NoError(t, next.Lease.Release(t.Context()))
			f.RequireNoKeys()
		})
	}
}

func TestCloseEndsLeasesAndWaiters(t *testing.T) {
	forEach(t, 5, func(t *testing.T, f *fleet.Fleet, k kind) {
		client := f.Client()
		lease := k.holder(client, none).has(t)
		waits := []*fleet.Acquisition{k.rival(client, none).starts(t.Context(), t), k.rival(client, none).starts(t.Context(), t)}
		require.NoError(t, client.Close(t.Context()))
		for _, w := range waits {
			require.False(t, w.Waits())
			require.ErrorIs(t, w.Err, quorumlock.ErrClosed)
		}
		for _, err := range []error{context.Cause(lease.Context()), lease.Err(), lease.Extend(t.Context()), lease.Release(t.Context())} {
			require.ErrorIs(t, err, quorumlock.ErrClosed)
		}
		require.Zero(t, f.Keys(), "every lock is released when Close returns")
		for _, call := range []func(context.Context) (*quorumlock.Lease, error){k.holder(client, none).wait, k.holder(client, none).try} {
			_, err := call(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrClosed)
		}
		require.NoError(t, client.Close(t.Context()), "a second Close does no harm")
	})
}

// The nodes keep a detached lease for the rest of its time, and a released one for the rest of its MinHold, whether its
// TTL is shorter or longer than that. Rivals wait for it, even if the client is closed or dies, after the release or instead
// of it. A holder that dies cannot shorten its TTL.
func TestDetachAndMinHoldKeepRivalsWaiting(t *testing.T) {
	const hold = 3 * time.Second
	for how, o := range map[string]quorumlock.LockOptions{
		"Detach": none, "MinHold": {TTL: time.Second, MinHold: hold}, "MinHold under a longer TTL": {MinHold: hold},
	} {
		for _, then := range []string{"it lives on", "it is closed", "it is closed instead", "it dies", "it dies instead"} {
			instead := strings.HasSuffix(then, "instead")
			if o.MinHold == 0 && instead {
				continue // it ends as any other then
			}
			t.Run(how+", "+then, func(t *testing.T) {
				forEach(t, 3, func(t *testing.T, f *fleet.Fleet, k kind) {
					rival := k.rival(f.Client(), none)
					client, wires := f.SpiedClient()
					lease := k.holder(client, o).has(t)
					began, kept := f.Clock.Now(), hold
					switch {
					case o.MinHold == 0:
						kept = lease.Remaining()
						_, err := lease.Detach()
						require.NoError(t, err)
					case !instead:
						require.NoError(t, lease.Release(t.Context()))
					case then == "it dies instead":
						kept = max(hold, lease.Remaining())
					}
					switch then {
					case "it is closed", "it is closed instead":
						require.NoError(t, client.Close(t.Context()))
						require.Error(t, lease.Err())
					case "it dies", "it dies instead":
						fleet.Settle() // Release waits for no answer if the nodes keep the lock long enough.
						for _, w := range wires {
							w.Severed.Store(true)
						}
					}
					next := rival.gets(t)
					waited := f.Clock.Now() - began
					require.GreaterOrEqual(t, waited, kept)
					require.Less(t, waited, kept+2*time.Second)
					if then == "it dies instead" {
						require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
					}
					require.NoError(t, next.Release(t.Context()))
					time.Sleep(time.Second)
					f.RequireNoKeys()
				})
			})
		}
	}
}

// An operator can free a lock that is only kept for its MinHold. A waiter of the client that kept it gets it too, and the
// end of the MinHold changes nothing for the next holder.
func TestForceReleaseOfAKeptLock(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, quorumlock.DefaultTTL} {
		for _, own := range []bool{true, false} {
			forEach(t, 3, func(t *testing.T, f *fleet.Fleet, k kind) {
				client, waiting := f.Client(), f.Client()
				if own {
					waiting = client
				}
				lease := k.holder(client, quorumlock.LockOptions{TTL: ttl, MinHold: 9 * time.Second}).has(t)
				wait := k.rival(waiting, none).starts(t.Context(), t)
				require.NoError(t, lease.Release(t.Context()))
				time.Sleep(100 * time.Millisecond)
				k.holder(client, none).isRefused(t)
				fleet.Settle()
				k.run(f, lease, wire.Op{Kind: wire.ForceRelease}, 0, 1, 2)
				require.Less(t, f.Elapsed(func() { <-wait.Done }), 2*time.Second)
				require.NoError(t, wait.Err)
				time.Sleep(time.Minute)
				require.NoError(t, wait.Lease.Err())
				have, want := wait.Lease.Backing()
				require.Equal(t, want, have)
				require.NoError(t, wait.Lease.Release(t.Context()))
				time.Sleep(time.Second)
				f.RequireNoKeys()
			})
		}
	}
}
