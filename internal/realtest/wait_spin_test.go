//go:build unix

package realtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Spinning waiters have no order. But a process whose own waiters take turns must not keep the
// lock from the others for ever. Its bounds for hand-overs prevent that.
func TestRealSpinningProcessesAreAllServed(t *testing.T) {
	t.Parallel()
	for what, off := range map[string]bool{"handed over": false, "nothing handed over": true} {
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
			t.Logf("%s; 4 goroutines of one process: %d sections in %v; one of another: %d, its longest wait %v",
				what, total, span, one.Sections, one.Longest)
			require.Positive(t, one.Sections, "a process that waits alone has its turns")
		})
	}
}
