//go:build unix

package realtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Spinning waiters have no order. Still, a process with several waiters must not keep the lock from another process by
// hand-overs: their number and time are limited.
func TestRealSpinningProcessesAreAllServed(t *testing.T) {
	t.Parallel()
	for what, off := range map[string]bool{"hand-over": false, "no hand-over": true} {
		t.Run(what, func(t *testing.T) {
			c, crowds, singles := startCluster(t, 5), t.TempDir(), t.TempDir()
			w := task{Name: "job", Clients: 1, Workers: 4, Hold: time.Millisecond, Waiting: quorumlock.WaitSpin, NoHandover: off, Trace: crowds}
			crowd := c.worker(w)
			w.Workers, w.Trace = 1, singles
			single := c.worker(w)
			crowd.start(t)
			began := now()
			single.start(t)
			awaitSections(t, crowds, longer(300, 3000))
			awaitSections(t, singles, longer(100, 1000))
			span := (now() - began).Round(time.Millisecond)
			one, all := stop(t, single)[0], stop(t, crowd)
			_, _, total, _ := shares(all)
			t.Logf("%s; 4 goroutines of one process: %d sections in %v; one of another: %d, longest wait %v",
				what, total, span, one.Sections, one.Longest)
			require.Positive(t, one.Sections, "the single waiter of the other process must get turns")
		})
	}
}
