package faultinject

import (
	"slices"
	"time"
)

// link is a throttled direction. It sends for one flow at a time, a portion each, in the
// order in which they ask. What it has not sent takes none of its time: who leaves the line
// leaves nothing behind. The proxy's lock guards it.
type link struct {
	rate int64 // bytes per second
	// busyUntil is when it has sent, or will have, what was taken from the line.
	busyUntil time.Time
	line      []*portion
}

// pacing is how often a link sends, if it is fast enough for a byte in that time.
const pacing = 10 * time.Millisecond

// portion is how much the link sends at a time.
type portion struct {
	link  *link
	size  int
	since time.Time // when the flow asked for it
	sent  bool      // by the link: it may be written
	wake  chan<- struct{}
}

// ask puts a portion of up to n bytes, at least one, at the end of the line. The flow is
// woken when it becomes the first.
func (l *link) ask(n int, now time.Time, wake chan<- struct{}) *portion {
	most := max(1, l.rate/int64(time.Second/pacing))
	p := &portion{link: l, size: int(min(int64(n), most)), since: now, wake: wake}
	l.line = append(l.line, p)
	return p
}

// send reports whether the portion is sent by now. If it is not, again is when to look
// again, or zero if others are before it.
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

// leave takes the portion out of the line.
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
