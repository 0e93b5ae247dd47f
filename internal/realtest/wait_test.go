//go:build unix

package realtest_test

import (
	"slices"
	"strconv"
	"time"
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
