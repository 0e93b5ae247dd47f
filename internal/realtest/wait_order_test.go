//go:build unix

package realtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// TestRealSharesOfContenders runs 16 contenders, four in each of four processes. Each holds the lock for a millisecond
// at a time. Without hand-over they get equal shares. For the other ways to wait, the test logs the shares.
func TestRealSharesOfContenders(t *testing.T) {
	const contenders = 16
	for _, order := range []struct {
		what string
		task task
		even bool
		// sections is the minimum number of all sections. It is larger where the test compares
		// shares.
		sections int
	}{
		{"queued", task{Waiting: quorumlock.WaitQueued}, false, 40 * contenders},
		{"queued, no hand-over", task{Waiting: quorumlock.WaitQueued, NoHandover: true}, true, 80 * contenders},
		{"spin", task{Waiting: quorumlock.WaitSpin}, false, 40 * contenders},
	} {
		t.Run(order.what, func(t *testing.T) {
			if !order.even {
				measureShares(t, order.what, order.task, contenders, order.sections)
				return
			}
			bestOfThree(t, func() (float64, bool) {
				least, most := measureShares(t, order.what, order.task, contenders, order.sections)
				apart := 100 * float64(most-least) / float64(most)
				// In a short run, the first and last turns distort the shares.
				return apart, least > 0 && apart < 10+300/float64(most)
			}, "the smallest share is not much more than 10 percent below the largest")
		})
	}
}

// measureShares lets contenders in four processes take turns. It returns the turns of the
// contender with the fewest and of the contender with the most.
func measureShares(t *testing.T, what string, w task, contenders, sections int) (least, most int) {
	t.Helper()
	dir := t.TempDir()
	w.Name, w.Clients, w.Workers, w.Hold, w.Trace = "job", 1, contenders/4, time.Millisecond, dir
	c := startCluster(t, 5)
	processes := []*child{c.worker(w), c.worker(w), c.worker(w), c.worker(w)}
	for _, p := range processes {
		p.start(t)
	}
	began := now()
	<-time.After(*sharesSpan)
	awaitSections(t, dir, longer(sections, 10*sections))
	span := now() - began
	accounts := stop(t, processes...)
	require.Len(t, accounts, contenders)
	least, most, total, longest := shares(accounts)
	t.Logf("%s: %d sections in %v, %.0f per second; shares from %d to %d; longest wait %v",
		what, total, span.Round(time.Millisecond), float64(total)/span.Seconds(), least, most, longest)
	return least, most
}

// shares returns the smallest and the largest number of turns, the total, and the longest wait.
func shares(accounts []account) (least, most, total int, longest time.Duration) {
	least = accounts[0].Sections
	for _, a := range accounts {
		least, most, total = min(least, a.Sections), max(most, a.Sections), total+a.Sections
		longest = max(longest, a.Longest)
	}
	return least, most, total, longest
}

// TestRealLocalHandover runs 64 contenders in one process, and a single one in another. Hand-overs within the first
// process make its turns much faster. The other process still gets its turns.
func TestRealLocalHandover(t *testing.T) {
	bestOfThree(t, func() (float64, bool) {
		times, longest := measureLocalHandover(t)
		return times, times >= 20 && longest < 1500*time.Millisecond
	}, "turns by hand-over are 20 times as fast, and the other process waits less than 1.5 s")
}

// measureLocalHandover returns the speed-up by hand-overs, and the longest wait of the single contender.
func measureLocalHandover(t *testing.T) (times float64, alone time.Duration) {
	t.Helper()
	rates := make(map[bool]float64)
	for _, off := range []bool{false, true} {
		c, dir := startCluster(t, 5), t.TempDir()
		crowd := c.worker(task{Name: "job", Clients: 1, Workers: 64, NoHandover: off})
		single := c.worker(task{Name: "job", Clients: 1, Workers: 1, NoHandover: off, Trace: dir})
		crowd.start(t)
		began := now()
		single.start(t)
		<-time.After(longer(2*time.Second, 20*time.Second)) // The start must not distort the result.
		awaitSections(t, dir, 100)
		span := now() - began
		others := stop(t, single)
		all := stop(t, crowd)
		require.Len(t, others, 1)
		require.Len(t, all, 64)
		least, most, total, longest := shares(all)
		rates[off] = float64(total) / span.Seconds()
		t.Logf("hand-over: %v; 64 goroutines: %d sections in %v, %.0f per second, each %d to %d, longest wait %v; the other process: %d, longest wait %v",
			!off, total, span.Round(time.Millisecond), rates[off], least, most, longest, others[0].Sections, others[0].Longest)
		require.Greater(t, others[0].Sections, 10, "the other process gets too few turns")
		alone = max(alone, others[0].Longest)
	}
	times = rates[false] / rates[true]
	t.Logf("%.1f times as fast", times)
	return times, alone
}
