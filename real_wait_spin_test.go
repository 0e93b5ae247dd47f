//go:build unix

package quorumlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Where all spin, no order is promised. But a process whose own waiters take turns must not keep
// the lock from the others for ever: its bounds for hand-overs are there for that.
func TestRealSpinningProcessesAreAllServed(t *testing.T) {
	const span = 4 * time.Second
	for what, off := range map[string]bool{"handed over": false, "nothing handed over": true} {
		t.Run(what, func(t *testing.T) {
			c := startCluster(t, 5)
			w := task{Name: "job", Clients: 1, Workers: 4, Hold: time.Millisecond, Waiting: quorumlock.WaitSpin, NoHandover: off}
			crowd := c.worker(w)
			w.Workers = 1
			single := c.worker(w)
			crowd.start(t)
			single.start(t)
			<-time.After(span)
			one, all := stop(t, single)[0], stop(t, crowd)
			_, _, total, _ := shares(all)
			t.Logf("%s; 4 goroutines of one process: %d sections in %v; one of another: %d, its longest wait %v",
				what, total, span, one.Sections, one.Longest)
			require.Positive(t, one.Sections, "a process that waits alone has its turns")
		})
	}
}
