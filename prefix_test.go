package quorumlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func withPrefix(prefix string) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) { cfg.Prefix = prefix }
}

// everyKind acquires a lock of each kind by the name "job", or by names that begin with it.
var everyKind = map[string]struct {
	acquire func(context.Context, *quorumlock.Client) (*quorumlock.Lease, error)
	names   []string
	// onNodes are the names on the nodes with the prefix "billing:".
	onNodes []string
}{
	"lock": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.RedLock("job").TryAcquire(ctx)
		},
		[]string{"job"},
		[]string{"billing:job"},
	},
	"with options": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.RedLock("job").With(quorumlock.LockOptions{Purpose: "a test"}).With(quorumlock.LockOptions{TTL: time.Second}).TryAcquire(ctx)
		},
		[]string{"job"},
		[]string{"billing:job"},
	},
	"several names": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.MultiLock("job:2", "job").With(quorumlock.LockOptions{TTL: time.Second}).TryAcquire(ctx)
		},
		[]string{"job", "job:2"},
		[]string{"billing:job", "billing:job:2"},
	},
	"writer": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.RWLock("job").Write().TryAcquire(ctx)
		},
		[]string{"job"},
		[]string{"billing:job"},
	},
	"stripe": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.Striped("job", 1).Locks("x").TryAcquire(ctx)
		},
		[]string{"job:0"},
		[]string{"billing:job:0"},
	},
	"semaphore": {
		func(ctx context.Context, c *quorumlock.Client) (*quorumlock.Lease, error) {
			return c.Semaphore("job", 1).With(quorumlock.LockOptions{TTL: time.Second}).TryAcquire(ctx, 1)
		},
		[]string{"job"},
		[]string{wire.SlotName(wire.PoolName("billing:job"), 0)},
	},
}

// Applications with different prefixes do not exclude each other. Nodes know the names with the prefix, and programs
// without it.
func TestPrefixSeparatesApplications(t *testing.T) {
	for kind, tc := range everyKind {
		t.Run(kind, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				billing, alike, other, none := f.Client(withPrefix("billing:")), f.Client(withPrefix("billing:")), f.Client(withPrefix("shipping:")), f.Client()
				lease, err := tc.acquire(t.Context(), billing)
				require.NoError(t, err)
				fleet.Settle()
				keys := f.Nodes[0].Keys()
				slices.Sort(keys)
				require.Equal(t, tc.onNodes, keys)
				require.Equal(t, tc.names, lease.Names())

				for _, c := range []*quorumlock.Client{other, none} {
					another, err := tc.acquire(t.Context(), c)
					require.NoError(t, err)
					require.Equal(t, tc.names, another.Names())
					require.NoError(t, another.Release(t.Context()))
				}
				_, err = tc.acquire(t.Context(), alike)
				var held *quorumlock.HeldError
				require.ErrorAs(t, err, &held)
				require.Equal(t, tc.names[0], held.Name)
				require.NotContains(t, err.Error(), "billing")
				require.NoError(t, lease.Release(t.Context()))
				f.RequireNoKeys()
			})
		})
	}
}

// Methods, errors, hooks and the log show the names that the program gave.
func TestPrefixIsNotShown(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var log bytes.Buffer
		var seen [][]string
		client := f.Client(withPrefix("billing:"), func(cfg *quorumlock.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cfg.Hooks = quorumlock.Hooks{
				Acquired:    func(e quorumlock.AcquiredEvent) { seen = append(seen, e.Names) },
				Acquisition: func(e quorumlock.AcquisitionEvent) { seen = append(seen, e.Names, e.Votes[0].Names) },
				Voted:       func(e quorumlock.VoteEvent) { seen = append(seen, e.Names) },
				Renewed:     func(e quorumlock.RenewalEvent) { seen = append(seen, e.Names) },
				Ended:       func(e quorumlock.EndedEvent) { seen = append(seen, e.Names) },
				Latch:       func(e quorumlock.LatchEvent) { seen = append(seen, []string{e.Name}) },
			}
		})
		lock := client.RedLock("job")
		require.Equal(t, []string{"job"}, lock.Names())
		lease := fleet.MustAcquire(t, lock)
		status, err := lock.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"job"}, status.Names)
		require.Equal(t, "job", status.Nodes[0].Holders[0].Name)
		require.Equal(t, lease.Owner(), status.Holder())
		time.Sleep(quorumlock.DefaultTTL) // it is renewed

		// Another program takes the lock by force. The holder learns it by the next renewal.
		removed, err := f.Client(withPrefix("billing:")).RedLock("job").ForceRelease(t.Context())
		require.NoError(t, err)
		require.Equal(t, "job", removed.Nodes[0].Holders[0].Name)
		<-lease.Context().Done()
		var lost *quorumlock.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Equal(t, []string{"job"}, lost.Names)

		latch := client.Latch("job")
		require.NoError(t, latch.Set(t.Context(), 1))
		require.Equal(t, "job", latch.Name())
		require.ErrorContains(t, latch.Set(t.Context(), 2), `latch "job" is set to 1`)

		f.Stop(0, 1)
		_, err = lock.TryAcquire(t.Context())
		var short *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &short)
		require.Equal(t, []string{"job"}, short.Names)
		f.Start(0, 1)

		require.NoError(t, client.Close(t.Context())) // after the last hook
		require.NotEmpty(t, seen)
		for _, names := range seen {
			require.Equal(t, []string{"job"}, names)
		}
		require.Contains(t, log.String(), "names=[job]")
		require.NotContains(t, log.String(), "billing")
	})
}

// A log line about permits has the name of their semaphore, without the prefix.
func TestPrefixOfLostPermitsIsNotShown(t *testing.T) {
	for _, prefix := range []string{"billing:", "{billing}:"} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			var log bytes.Buffer
			client := f.Client(withPrefix(prefix), func(cfg *quorumlock.Config) {
				cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			lease, err := client.Semaphore("ports", 1).Acquire(t.Context(), 1)
			require.NoError(t, err)
			f.Stop(0, 1, 2)
			<-lease.Context().Done()
			f.Start(0, 1, 2)
			require.NoError(t, client.Close(t.Context()))
			require.Contains(t, log.String(), `"quorumlock: lease ended" names=[ports]`)
			require.NotContains(t, log.String(), "billing")
		})
	}
}

func TestPrefixOfASemaphore(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one, two, other := f.Client(withPrefix("billing:")), f.Client(withPrefix("billing:")), f.Client(withPrefix("shipping:"))
		lease, err := one.Semaphore("ports", 3).Acquire(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, one.Semaphore("ports", 3).SetPermits(t.Context(), 5))
		fleet.Settle()

		s := two.Semaphore("ports", 3)
		require.Equal(t, "ports", s.Name())
		status, err := s.Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ports", status.Name)
		require.Equal(t, 5, status.Permits)
		require.Equal(t, map[string][]int{lease.Owner(): lease.Slots()}, status.Holders())
		require.Equal(t, 3, status.Available())

		status, err = other.Semaphore("ports", 3).Inspect(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, status.Available())
	})
}

// Waiters are woken by name, and latches are done by name: both are names on the nodes.
func TestPrefixOfWaitersAndLatches(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one, two, other := f.Client(withPrefix("billing:")), f.Client(withPrefix("billing:")), f.Client(withPrefix("shipping:"))
		lease := fleet.MustAcquire(t, one.RedLock("job"))
		waiter := fleet.StartAcquire(t.Context(), t, two.RedLock("job"))
		require.True(t, waiter.Waits())
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, waiter.Has().Release(t.Context()))

		require.NoError(t, one.Latch("import").Set(t.Context(), 1))
		require.ErrorIs(t, other.Latch("import").CountDown(t.Context(), "x"), quorumlock.ErrLatchNotSet)
		done := make(chan error, 1)
		go func() { done <- two.Latch("import").Await(t.Context()) }()
		fleet.Settle()
		require.NoError(t, one.Latch("import").CountDown(t.Context(), "x"))
		require.NoError(t, <-done)
	})
}

// Joined locks are taken in the order of their names on the nodes: clients with different prefixes may join the same
// locks.
func TestPrefixOfJoinedLocks(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, none := f.Client(withPrefix("m:")), f.Client()
		a, z, s := client.RedLock("a"), client.RedLock("z"), client.Semaphore("s", 2)
		lease, err := quorumlock.Join(z, none.RedLock("n"), a, s.Joinable(2)).Acquire(t.Context())
		require.NoError(t, err)
		var order []string
		for _, part := range lease.Leases() {
			order = append(order, strings.Join(part.Names(), " "))
		}
		require.Equal(t, []string{"a", "s", "z", "n"}, order, "m:a, m:s, m:z, n")
		_, held := z.Token(lease.Context())
		require.True(t, held)
		_, held = client.RedLock("m:z").Token(lease.Context())
		require.False(t, held)
		_, err = none.RedLock("m:z").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld, "it is the same lock")

		_, err = quorumlock.Join(a, client.RedLock("a")).Acquire(t.Context())
		require.ErrorContains(t, err, `lock "a" is joined with itself`)
		_, err = quorumlock.Join(a, none.RedLock("m:a")).Acquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestPrefixes(t *testing.T) {
	one := []node.Node{memory.New("a", clock.Process())}
	for _, prefix := range []string{"a", "billing:", "é/", "{billing}:", "team:{billing}", "quorumlocks:", strings.Repeat("p", 128)} {
		_, err := quorumlock.New(quorumlock.Config{Nodes: one, Prefix: prefix})
		require.NoError(t, err, "%q", prefix)
	}
	for prefix, says := range map[string]string{
		"two words": "has a space", "line\n": "unprintable", "\xff": "unprintable",
		strings.Repeat("p", 129): "more than 128",
		"quorumlock:":            "reserved", "quorumlock:x": "reserved", "quorum": "reserved", "q": "reserved",
		"{a": "brace", "a}": "brace", "{}": "brace", "{}a": "brace", "}{": "brace", "}{a}": "brace", "{a}{b}": "brace", "{{a}}": "brace", "{a}}": "brace",
	} {
		_, err := quorumlock.New(quorumlock.Config{Nodes: one, Prefix: prefix})
		require.ErrorIs(t, err, quorumlock.ErrInvalid, "%q", prefix)
		require.ErrorContains(t, err, says, "%q", prefix)
	}
}

func TestNamesWithAPrefix(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(withPrefix("billing:"))
		longest := strings.Repeat("x", 512-len("billing:"))
		require.NoError(t, fleet.MustAcquire(t, client.RedLock(longest)).Release(t.Context()))
		for says, lock := range map[string]*quorumlock.Lock{
			"a name is empty": client.RedLock(""),
			`name "xxxxxxxxxxxxxxxxxxxx"... has 513 bytes with the prefix "billing:", more than 512`: client.RedLock(longest + "x"),
			`name "quorumlock:x" starts with "quorumlock:", which is reserved`:                       client.RedLock("quorumlock:x"),
			`name "a" is listed twice`: client.MultiLock("a", "b", "a"),
		} {
			err := fleet.MustBeRefused(t, lock)
			require.ErrorIs(t, err, quorumlock.ErrInvalid)
			require.ErrorContains(t, err, says)
		}
		require.ErrorContains(t, client.Latch("").Set(t.Context(), 1), "a name is empty")
	})
}
