package quorumlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// stripe returns the lock of a name's stripe.
func stripe(s *quorumlock.Striped, name string) string { return s.Locks(name).Names()[0] }

// Processes of all versions have to find the same stripe, so these stripes never change.
func TestStripesOfNames(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		for _, tc := range []struct {
			name                string
			two, sixteen, prime int
		}{
			{"a", 1, 11, 882},
			{"b", 0, 0, 609},
			{"order:1", 1, 3, 595},
			{"order:2", 1, 13, 768},
			{"customer:0815/invoice", 0, 14, 16},
			{"héllo, wörld \x00\xff", 1, 5, 340},
			{strings.Repeat("x", 100_000), 0, 2, 121},
		} {
			for stripes, want := range map[int]int{1: 0, 2: tc.two, 16: tc.sixteen, 1009: tc.prime} {
				require.Equal(t, fmt.Sprintf("s:%d", want), stripe(client.Striped("s", stripes), tc.name), "%.20q", tc.name)
			}
		}
	})
}

// No stripe gets many more names than the others, however regular the names are.
func TestNamesSpreadOverStripes(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		for _, stripes := range []int{2, 10, 64, 127} {
			s := f.Client().Striped("s", stripes)
			for _, pattern := range []string{"%d", "order:%08d", "%d000", "even:%d0"} {
				const each = 1000
				counts := map[string]int{}
				for i := range each * stripes {
					counts[stripe(s, fmt.Sprintf(pattern, 2*i))]++
				}
				require.Len(t, counts, stripes)
				for name, n := range counts {
					require.InDelta(t, each, n, each/5, "%d stripes, %s: stripe %s", stripes, pattern, name)
				}
			}
		}
	})
}

// sharing finds a name that falls on the same stripe as another, and a name that does not.
func sharing(s *quorumlock.Striped, name string) (same, other string) {
	for i := 0; same == "" || other == ""; i++ {
		candidate := fmt.Sprintf("%s-%d", name, i)
		if stripe(s, candidate) == stripe(s, name) {
			same = candidate
		} else {
			other = candidate
		}
	}
	return same, other
}

func TestStripesExclude(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one, two := f.Client().Striped("orders", 8), f.Client().Striped("orders", 8)
		same, other := sharing(one, "a")
		lease, err := one.Locks("a").Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{stripe(two, "a")}, lease.Names())
		for _, name := range []string{"a", same} {
			_, err = two.Locks(name).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld)
		}
		free, err := two.Locks(other).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, free.Release(t.Context()))

		nested, err := one.Locks(same).TryAcquire(lease.Context())
		require.NoError(t, err, "the context holds the stripe")
		require.Equal(t, lease.Token(), nested.Token())
		require.NoError(t, nested.Release(t.Context()))
		_, err = one.Locks("a", other).TryAcquire(lease.Context())
		require.ErrorIs(t, err, quorumlock.ErrOverlap)

		require.NoError(t, lease.Release(t.Context()))
		fleet.Settle() // the slowest node may still have the lock, or a denied attempt
		lease, err = two.Locks(same).TryAcquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
		f.RequireNoKeys()
	})
}

// A client takes several names in one step: each stripe once, by a majority.
func TestSeveralStripes(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		f.Stop(1)
		s := f.Client().Striped("orders", 8)
		same, other := sharing(s, "a")
		lock := s.Locks("a", same, other, "a")
		require.Len(t, lock.Names(), 2)
		lease, err := lock.With(quorumlock.LockOptions{Fixed: true}).Acquire(t.Context())
		require.NoError(t, err)
		require.Equal(t, lock.Names(), lease.Names())
		for _, name := range []string{"a", same, other} {
			_, err = s.Locks(name).TryAcquire(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrHeld)
		}
		require.NoError(t, lease.Release(t.Context()))

		many := make([]string, 1000)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		require.Len(t, s.Locks(many...).Names(), 8)
		require.NoError(t, s.Locks(many...).Do(t.Context(), func(ctx context.Context) error { return ctx.Err() }))
		f.RequireNoKeys()
	})
}

func TestInvalidStripes(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		names := make([]string, 10*quorumlock.MaxNames)
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		for _, tc := range []struct {
			lock *quorumlock.Lock
			want string
		}{
			{client.Striped("s", 0).Locks("a"), "0 stripes requested, the range is 1 to 1048576"},
			{client.Striped("s", -1).Locks("a"), "-1 stripes"},
			{client.Striped("s", 1<<20+1).Locks("a", "b"), "1048577 stripes"},
			{client.Striped("", 5).Locks("a"), "prefix of the stripes is empty"},
			{client.Striped("quorumlock:s", 5).Locks("a"), "reserved"},
			{client.Striped(strings.Repeat("x", 512), 1).Locks("a"), "bytes"},
			{client.Striped("s", 5).Locks(""), "a name is empty"},
			{client.Striped("s", 5).Locks("a", ""), "a name is empty"},
			{client.Striped("s", 5).Locks(), "no name"},
			{client.Striped("s", 100_000).Locks(names...), "names are more than 128"},
		} {
			for _, lock := range []*quorumlock.Lock{tc.lock, tc.lock.With(quorumlock.LockOptions{Fixed: true})} {
				_, err := lock.TryAcquire(t.Context())
				require.ErrorIs(t, err, quorumlock.ErrInvalid, tc.want)
				require.ErrorContains(t, err, tc.want)
			}
		}
		require.NoError(t, client.Striped("s", 1<<20).Locks("a").Do(t.Context(), func(context.Context) error { return nil }))
	})
}

func ExampleClient_Striped() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	accounts := client.Striped("account", 256) // however many accounts there are
	err := accounts.Locks("alice", "bob").Do(ctx, func(context.Context) error {
		fmt.Println("the accounts of Alice and Bob are locked")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// the accounts of Alice and Bob are locked
	// error: <nil>
}
