package faultinject

import (
	"errors"
	"os"
	"slices"
	"time"
)

// deliver writes until the connection is over.
func (f *flow) deliver() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		f.proxy.mu.Lock()
		again, over := f.advance()
		f.proxy.mu.Unlock()
		switch {
		case over:
			return
		case again.IsZero():
			<-f.wake
		default:
			timer.Reset(time.Until(again))
			select {
			case <-f.wake:
			case <-timer.C:
			}
		}
	}
}

// advance delivers all data that may pass now. It returns when to check again, or zero if only a change can make a
// difference.
func (f *flow) advance() (again time.Time, over bool) {
	for !f.conn.over {
		now := time.Now()
		if again, free := f.mayPass(now); !free {
			f.leaveLink()
			return again, false
		}
		if how := f.marks[0].end; how != goesOn {
			f.finish(how)
			continue
		}
		limit := f.met.limit
		if limit != nil && limit.left == 0 {
			f.act(limit)
			continue
		}
		n, again := f.pace(f.ripe(now), now)
		if n == 0 {
			return again, false
		}
		f.write(n, limit)
	}
	return time.Time{}, true
}

// mayPass reports whether the next data or end may pass now, or when to check again.
func (f *flow) mayPass(now time.Time) (again time.Time, free bool) {
	if f.met.held || len(f.marks) == 0 {
		return time.Time{}, false
	}
	head := f.marks[0]
	if due := f.met.due(head); due.After(now) {
		return due, false
	}
	limit := f.met.limit
	// If nothing is left but some is reserved, another connection may be about to pass the last of it.
	taken := limit != nil && limit.left == 0 && limit.reserved > 0
	return time.Time{}, head.end != goesOn || !taken
}

// ripe returns how many bytes are due. Bytes behind one that is not due do not count.
func (f *flow) ripe(now time.Time) (n int) {
	for _, m := range f.marks {
		if m.end != goesOn || f.met.due(m).After(now) {
			break
		}
		n += m.size
	}
	return n
}

// pace returns how many of n bytes may pass now. If none may, again is when to check again, or zero if the flow will
// be woken.
func (f *flow) pace(n int, now time.Time) (may int, again time.Time) {
	l := f.met.link
	if l == nil {
		return n, now
	}
	if f.portion == nil || f.portion.link != l {
		f.portion = l.ask(n, now, f.wake)
	}
	if again, sent := f.portion.send(now); !sent {
		return 0, again
	}
	return min(n, f.portion.size), now
}

// leaveLink leaves the queue of a throttled link, to let others pass.
func (f *flow) leaveLink() {
	if f.portion != nil && !f.portion.sent {
		f.portion.leave()
		f.portion = nil
	}
}

// write passes up to n bytes, within the limit if there is one. It releases the lock meanwhile.
func (f *flow) write(n int, limit *byteLimit) {
	if limit != nil {
		n = int(min(int64(n), limit.left))
	}
	piece := f.ring.used(n)
	if limit != nil {
		limit.left -= int64(len(piece))
		limit.reserved += int64(len(piece))
	}
	f.writing = true
	f.writes++
	f.proxy.mu.Unlock()
	n, err := f.to.Write(piece)
	f.proxy.mu.Lock()
	f.writing = false
	if f.interrupted {
		f.interrupted = false
		_ = f.to.SetWriteDeadline(time.Time{}) // fails only if closed, which the next write shows
	}
	f.pass(n)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.fail()
	}
	if limit != nil {
		f.settleLimit(limit, len(piece), n)
	}
	f.proxy.changed.Broadcast()
}

// pass counts n bytes as passed.
func (f *flow) pass(n int) {
	f.met.passed += uint64(n)
	f.ring.drop(n)
	if f.portion != nil {
		f.portion.size -= n
		if f.portion.size <= 0 {
			f.portion = nil
		}
	}
	for n > 0 {
		part := min(n, f.marks[0].size)
		n -= part
		f.marks[0].size -= part
		if f.marks[0].size == 0 {
			f.pop()
		}
	}
	notify(f.room)
}

func (f *flow) pop() {
	if len(f.marks) == 1 {
		f.marks = f.marks[:0] // keeps the memory
		return
	}
	f.marks = f.marks[1:]
}

// settleLimit returns the reserved bytes that a write did not use. It acts if the write used up the limit.
func (f *flow) settleLimit(limit *byteLimit, reserved, used int) {
	limit.reserved -= int64(reserved)
	limit.left += int64(reserved - used)
	if limit != f.met.limit {
		return // replaced meanwhile
	}
	if limit.left == 0 && limit.reserved == 0 {
		f.act(limit)
	}
	f.proxy.wakeAll() // others may have waited for this
}

// act performs the action after the last byte.
func (f *flow) act(limit *byteLimit) {
	f.met.limit = nil
	switch limit.then {
	case ThenHold:
		f.met.held = true
	case ThenReset:
		f.conn.end(true)
	case ThenClose:
		f.clear()
		f.marks = slices.Insert(f.marks, 0, mark{end: fin})
	}
	f.proxy.wakeAll()
}
