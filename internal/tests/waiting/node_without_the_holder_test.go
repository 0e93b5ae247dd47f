package waiting_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/fleet"
)

// The holder lacks one node. That node grants one waiter after the other. Each waiter undoes its grant, which wakes
// the next one. This must not keep the waiters busy.
func TestFreeMinorityNodeDoesNotMakeWaitersBusy(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		a, mine := f.SpiedClient()
		b, theirs := f.SpiedClient()
		f.Take("job", "x", 0, 1)
		_ = fleet.StartAcquire(t.Context(), t, a.RedLock("job"))
		time.Sleep(time.Millisecond)
		_ = fleet.StartAcquire(t.Context(), t, b.RedLock("job"))
		time.Sleep(2 * time.Second)
		require.LessOrEqual(t, mine[0].Asked(), 20)
		require.LessOrEqual(t, theirs[0].Asked(), 20)
	})
}
