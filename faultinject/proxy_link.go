package faultinject

import (
	"slices"
	"time"
)

// link is a throttled direction. It sends for one flow at a time, a portion each, in the order of the requests.
// Unsent data takes none of its time: a flow that leaves the queue leaves nothing behind. Guarded by the proxy's
// lock.
type link struct {
	rate int64 // bytes per second
	// busyUntil is the time at which all portions taken from the queue are sent.
	busyUntil time.Time
	line      []*portion
}

// pacing is the interval between portions, if the link is fast enough for a byte in that time.
const pacing = 10 * time.Millisecond

// portion is the data that the link sends at one time.
type portion struct {
	link  *link
	size  int
	since time.Time // when the flow asked for it
	sent  bool      // by the link: it may be written
	wake  chan<- struct{}
}

// ask queues a portion of up to n bytes, at least one. The flow is woken when the portion becomes the first.
func (l *link) ask(n int, now time.Time, wake chan<- struct{}) *portion {
	most := max(1, l.rate/int64(time.Second/pacing))
	p := &portion{link: l, size: int(min(int64(n), most)), since: now, wake: wake}
	l.line = append(l.line, p)
	return p
}

// send reports whether the portion has been sent. If not, again is when to check again, or zero if others are before
// it.
func (p *portion) send(now time.Time) (again time.Time, sent bool) {
	l := p.link
	if p.sent {
		return time.Time{}, true
	}
	if l.line[0] != p {
		return time.Time{}, false
	}
	start := p.since
	if l.busyUntil.After(start) {
		start = l.busyUntil
	}
	end := start.Add(time.Duration(float64(p.size) / float64(l.rate) * float64(time.Second)))
	if end.After(now) {
		return end, false
	}
	p.leave()
	l.busyUntil, p.sent = end, true
	return time.Time{}, true
}

// leave removes the portion from the queue.
func (p *portion) leave() {
	l := p.link
	i := slices.Index(l.line, p)
	if i < 0 {
		return
	}
	l.line = slices.Delete(l.line, i, i+1)
	if i == 0 && len(l.line) > 0 {
		notify(l.line[0].wake)
	}
}
