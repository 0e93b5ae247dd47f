package dispatch

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
)

// A node that failed is probed soon at first, then less and less often.
const (
	probePauseMin = 20 * time.Millisecond
	probePauseMax = 500 * time.Millisecond
)

// health is the sender's view of its node: how long to wait for an answer, and whether to ask
// the node at all. It is guarded by the sender's mutex.
type health struct {
	least, most time.Duration

	// timeout follows the round-trip time as TCP's retransmission timer does (RFC
	// 6298), but with twice its value: 2 smoothed means and 8 deviations, within the bounds.
	timeout, mean, deviation time.Duration

	// down is set from a failed exchange until the next good one; err is the failure.
	down bool
	err  error
	// probeAt is when a node that is down may be asked again.
	probeAt  time.Duration
	failures int
}

func newHealth(least, most time.Duration) health {
	return health{least: least, most: most, timeout: most}
}

// answered records an exchange that took rtt, and reports whether the node was down.
func (h *health) answered(rtt time.Duration) (recovered bool) {
	// No caller waits longer than most. A larger rtt may be a suspend of this process.
	rtt = min(rtt, h.most)
	if h.mean == 0 {
		h.mean, h.deviation = rtt, rtt/2
	} else {
		h.deviation += (max(rtt-h.mean, h.mean-rtt) - h.deviation) / 4
		h.mean += (rtt - h.mean) / 8
	}
	h.timeout = min(max(2*h.mean+8*h.deviation, h.least), h.most)
	return h.up()
}

// up records that the node answers, and reports whether it was down.
func (h *health) up() (recovered bool) {
	recovered = h.down
	h.down, h.err, h.failures = false, nil, 0
	return recovered
}

// late records that an exchange exceeded the timeout: the next one gets more.
func (h *health) late() {
	h.timeout = min(2*h.timeout, h.most)
}

// failed records an exchange that failed, and reports whether the node was up before.
func (h *health) failed(now time.Duration, err error, jitter float64) (news bool) {
	news = !h.down
	h.down, h.err = true, err
	h.probeAt = now + decision.Backoff(h.failures, probePauseMin, probePauseMax, jitter)
	h.failures++
	return news
}
