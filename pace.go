package quorumlock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/quorum"
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
	return min(max(4*c.latency(), minMoment), maxMoment)
}

// spread is how far apart contenders have to be able to get, by their pauses: each attempt that
// comes to nothing keeps others out for two latencies, until what it got is given back. Where the
// pauses were shorter than that, a few contenders on slow links kept each other out for seconds.
func (c *Client) spread() time.Duration { return 8 * c.latency() }

// latency is how long most nodes have taken to answer lately, of those that have.
func (c *Client) latency() time.Duration {
	var buf [quorum.MaxNodes]time.Duration
	means := buf[:0]
	for _, l := range c.lanes {
		if mean := l.latency(); mean > 0 {
			means = append(means, mean)
		}
	}
	if len(means) == 0 {
		return 0
	}
	slices.Sort(means)
	return means[len(means)/2]
}

// latency is how long the node has taken to answer lately; 0 if it was not asked yet.
func (l *lane) latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.health.mean
}

// after is d after at; never is never over.
func after(at, d time.Duration) time.Duration {
	if d > never-at {
		return never
	}
	return at + d
}
