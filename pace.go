package quorumlock

import (
	"time"
)

// recheck is the longest time between two attempts of a waiter, whatever it expects: a wake
// can be lost, or come to one who is paused. Up to a quarter of it is taken off by jitter. On slow
// links it is longer: who has tried in vain holds back for up to eight latencies, see spread.
const recheck = time.Second

// keepEntry is how long nodes keep an entry after each attempt: until after the next.
func (c *Client) keepEntry() time.Duration {
	return (3*recheck + 2*c.cfg.NodeTimeoutMax).Truncate(time.Millisecond)
}

// The bounds of a moment.
const (
	minMoment = time.Millisecond
	maxMoment = 20 * time.Millisecond
)

// moment is how long most nodes need for an answer, with a margin, so that what happens on
// them at the same time is seen together.
func (c *Client) moment() time.Duration {
	return min(max(4*c.nodes.MedianLatency(), minMoment), maxMoment)
}

// spread is how far apart contenders have to be able to get, by their pauses: each attempt that
// comes to nothing keeps others out for two latencies, until what it got is given back. Where the
// pauses were shorter than that, a few contenders on slow links kept each other out for seconds.
func (c *Client) spread() time.Duration { return 8 * c.nodes.MedianLatency() }

// after is d after at; never is never over.
func after(at, d time.Duration) time.Duration {
	if d > never-at {
		return never
	}
	return at + d
}
