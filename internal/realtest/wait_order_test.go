//go:build unix

package realtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRealShares: 16 contenders, four in each of four processes, hold the lock for a
// millisecond each. In fair order they get equal shares; of the others, the shares are told.
func TestRealShares(t *testing.T) {
	const contenders = 16
	for _, order := range []struct {
		what string
		task task
		fair bool
		// sections is how many there are at least, of all together: more where shares are compared.
		sections int
	}{
		{"fair", task{Waiting: quorumlock.WaitFair}, true, 80 * contenders},
		{"queued", task{Waiting: quorumlock.WaitQueued}, false, 40 * contenders},
		{"queued, nothing handed over", task{Waiting: quorumlock.WaitQueued, NoHandover: true}, false, 20 * contenders},
		{"spin", task{Waiting: quorumlock.WaitSpin}, false, 40 * contenders},
	} {
		t.Run(order.what, func(t *testing.T) {
			w := order.task
			dir := t.TempDir()
			w.Name, w.Clients, w.Workers, w.Hold, w.Trace = "job", 1, 4, time.Millisecond, dir
			c := startCluster(t, 5)
			processes := []*child{c.worker(w), c.worker(w), c.worker(w), c.worker(w)}
			for _, p := range processes {
				p.start(t)
			}
			began := now()
			<-time.After(*sharesSpan)
			awaitSections(t, dir, longer(order.sections, 10*order.sections))
			span := now() - began
			accounts := stop(t, processes...)
			require.Len(t, accounts, contenders)
			least, most, total, longest := shares(accounts)
			apart := 100 * float64(most-least) / float64(most)
			t.Logf("%s: %d sections in %v, %.0f a second; shares from %d to %d, %.1f%% apart; the longest wait %v",
				order.what, total, span.Round(time.Millisecond), float64(total)/span.Seconds(), least, most, apart, longest)
			if order.fair {
				require.Positive(t, least, "everybody has had it")
				// In a short time, a few turns at its beginning and end are a part of the shares.
				require.Less(t, apart, 10+300/float64(most), "percent that the smallest share is below the largest")
			}
		})
	}
}

// shares is how often who had it least and most often has, all together, and the longest wait.
func shares(accounts []account) (least, most, total int, longest time.Duration) {
	least = accounts[0].Sections
	for _, a := range accounts {
		least, most, total = min(least, a.Sections), max(most, a.Sections), total+a.Sections
		longest = max(longest, a.Longest)
	}
	return least, most, total, longest
}

// TestRealLocalHandover: 64 wait in one process, and one in another. That the lock is handed over
// within the process makes it very much faster, and yet the other process has its turns.
func TestRealLocalHandover(t *testing.T) {
	rates := make(map[bool]float64)
	for _, off := range []bool{false, true} {
		c, dir := startCluster(t, 5), t.TempDir()
		crowd := c.worker(task{Name: "job", Clients: 1, Workers: 64, NoHandover: off})
		single := c.worker(task{Name: "job", Clients: 1, Workers: 1, NoHandover: off, Trace: dir})
		crowd.start(t)
		began := now()
		single.start(t)
		<-time.After(longer(2*time.Second, 20*time.Second)) // the beginning must not count for much
		awaitSections(t, dir, 100)
		span := now() - began
		others := stop(t, single)
		all := stop(t, crowd)
		require.Len(t, others, 1)
		require.Len(t, all, 64)
		least, most, total, longest := shares(all)
		rates[off] = float64(total) / span.Seconds()
		t.Logf("handed over: %v; 64 goroutines: %d sections in %v, %.0f a second, each %d to %d, the longest wait %v; the other process: %d, the longest wait %v",
			!off, total, span.Round(time.Millisecond), rates[off], least, most, longest, others[0].Sections, others[0].Longest)
		require.Greater(t, others[0].Sections, 10, "the other process has its turns")
		require.Less(t, others[0].Longest, 1500*time.Millisecond, "and never waits for long")
	}
	t.Logf("%.1f times as fast", rates[false]/rates[true])
	require.GreaterOrEqual(t, rates[false], 20*rates[true])
}
