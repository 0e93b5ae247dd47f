//go:build unix

package realtest_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRealFreeLocksAreBatchedBesideAWaiter acquires free locks while another caller of the client waits. They share
// calls of the script for many, as they do without the waiter.
func TestRealFreeLocksAreBatchedBesideAWaiter(t *testing.T) {
	const callers, each = 64, 50
	c := startCluster(t, 5)
	held := acquire(t, c.client().RedLock("job"))
	t.Cleanup(func() { runtime.KeepAlive(held) })
	client := c.client()
	waiting := make(chan error, 1)
	go func() {
		lease, err := client.RedLock("job").Acquire(t.Context())
		if err == nil {
			err = lease.Release(t.Context())
		}
		waiting <- err
	}()
	c.queued(1)

	scripts := func() (most int) {
		for i := range c.servers {
			most = max(most, c.calls(i))
		}
		return most
	}
	before := scripts()
	var all sync.WaitGroup
	for i := range callers {
		lock := client.RedLock(fmt.Sprint("free", i))
		all.Go(func() {
			for range each {
				lease, err := lock.Acquire(t.Context())
				if err == nil {
					err = lease.Release(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	perLock := float64(scripts()-before) / (callers * each)
	t.Logf("%.2f scripts on the busiest node for each lock", perLock)
	require.Less(t, perLock, 1.0, "an acquisition and its release are two operations")
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, <-waiting)
}
