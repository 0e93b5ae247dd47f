//go:build unix

package realtest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// queued requires that the job's queue on each node soon has the given number of entries.
func (c *cluster) queued(want int) {
	c.t.Helper()
	entries := func() (all []string) {
		for i := range c.servers {
			all = append(all, c.command(i, "ZCARD", "quorumlock:queue:{job}"))
		}
		return all
	}
	eventually(c.t, 20*time.Second, func() bool {
		return !slices.ContainsFunc(entries(), func(n string) bool { return n != strconv.Itoa(want) })
	}, "the queue of every node has %d entries; they have %v", want, entries)
}

// quantile returns a quantile of the durations. It sorts them in place.
func quantile(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, int(part*float64(len(all))))]
}

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
