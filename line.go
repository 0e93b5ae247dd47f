package quorumlock

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// lines are all those of one client who wait for locks, in one line for each set of names
// and rule.
// Only the first of a line talks to the nodes, and only while nobody of this client holds
// the lock: to wait in a line costs nothing.
type lines struct {
	mu sync.Mutex
	by map[lineKey]*line
	// spare are lines that were used up.
	spare []*line
}

// lineKey is a set of names (the name, or several with their lengths), how many nodes have to
// grant them, and whether those in the line spin: who needs all nodes must not hold up those who
// are content with most, and who looks from time to time not those who are woken.
type lineKey struct {
	names       string
	count, need int
	spins       bool
}

func newLineKey(names []string, need int, spins bool) lineKey {
	if len(names) == 1 {
		return lineKey{names: names[0], count: 1, need: need, spins: spins}
	}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(strconv.Itoa(len(name)))
		b.WriteByte(':')
		b.WriteString(name)
	}
	return lineKey{names: b.String(), count: len(names), need: need, spins: spins}
}

// line is who of this client holds the names, and who waits for them.
type line struct {
	// holder is the hold of this client, or nil.
	holder *hold
	// first and last are the ends of the line of waiters.
	first, last *waiter
	// freed is when a hold of this client ended last while somebody waited, in microseconds
	// by the wall clock: then the others have their turn.
	freed int64
	// Where nobody can be woken, since is when this client's turn began, and rest until when
	// it leaves the lock to those who look for it from time to time.
	since, rest time.Duration
	// err is what the last attempt of the line came to.
	err error
}

// maxSpare bounds how many used lines are kept.
const maxSpare = 64

// of is the line of a key, made if need be. The mutex is held.
func (ls *lines) of(key lineKey) *line {
	if ln := ls.by[key]; ln != nil {
		return ln
	}
	var ln *line
	if n := len(ls.spare); n > 0 {
		ln, ls.spare = ls.spare[n-1], ls.spare[:n-1]
	} else {
		ln = &line{}
	}
	if ls.by == nil {
		ls.by = make(map[lineKey]*line)
	}
	ls.by[key] = ln
	return ln
}

// tidy forgets a line of which nothing is left. The mutex is held.
func (ls *lines) tidy(key lineKey, ln *line) {
	if ln.holder != nil || ln.first != nil {
		return
	}
	delete(ls.by, key)
	*ln = line{}
	if len(ls.spare) < maxSpare {
		ls.spare = append(ls.spare, ln)
	}
}

// join puts a waiter at the end of its line.
func (ls *lines) join(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.of(w.lock.key)
	w.line, w.before = ln, ln.last
	if ln.last == nil {
		ln.first = w
	} else {
		ln.last.after = w
	}
	ln.last = w
}

// leave takes a waiter out, if it is still in. Who is first then has its turn.
func (ls *lines) leave(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.line != nil {
		ls.remove(w)
	}
}

// remove takes a waiter out of its line. The mutex is held.
func (ls *lines) remove(w *waiter) {
	ln := w.line
	if w.before == nil {
		ln.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		ln.last = w.before
	} else {
		w.after.before = w.before
	}
	first := w.before == nil
	w.line, w.before, w.after = nil, nil, nil
	if first && ln.first != nil && ln.first.isUp() {
		ln.first.nudge()
	}
	ls.tidy(w.lock.key, ln)
}

// took notes that this client holds the lock.
func (ls *lines) took(h *hold) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.of(h.lock.key)
	ln.holder = h
	if ln.since <= ln.rest {
		ln.since = h.grantedAt
	}
}

// gave notes that a hold has ended, and that its release is on its way.
func (ls *lines) gave(h *hold) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.by[h.lock.key]
	if ln == nil || ln.holder != h {
		return
	}
	ln.holder = nil
	if ln.first != nil {
		ln.freed = h.client.clock.Wall().UnixMicro()
		ln.takeRest(h)
		ln.first.stale = true
		ln.first.nudge()
	}
	ls.tidy(h.lock.key, ln)
}

// takeRest ends the turn of a client whose waiters spin, once it has lasted as long as a lease
// may be handed over. Those of others look at most RetryMax apart: one in a few of them
// finds the lock free in the meantime.
func (ln *line) takeRest(h *hold) {
	cfg, now := &h.client.cfg, h.client.clock.Now()
	if h.lock.waiting == WaitSpin && now-ln.since >= cfg.Handover.MaxTime {
		ln.rest = now + cfg.RetryMax/4
	}
}

// others reports whether somebody waits behind a waiter.
func (ls *lines) others(w *waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.after != nil
}

// news is what stands in the way of a waiter: a hold of this client, or what the last
// attempt of its line came to.
func (ls *lines) news(w *waiter) (*hold, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.line == nil {
		return nil, nil
	}
	return w.line.holder, w.line.err
}

// equip makes a waiter one that can be nudged by anybody.
func (ls *lines) equip(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.equip()
}

// turnSince is when the turn of a waiter's client has begun to be due: when it came, or when
// its client had the lock last.
func (ls *lines) turnSince(w *waiter) int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return max(w.ticket, w.line.freed)
}

// pass gives what a hold has to whoever is first in its line, if that is one who would take
// it as it is. The tenure is made with the mutex held.
func (ls *lines) pass(h *hold, to func(*Lock) *tenure) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.by[h.lock.key]
	if ln == nil || ln.holder != h || ln.first == nil || !ln.first.inherits(h) {
		return false
	}
	w := ln.first
	ls.remove(w)
	w.given = to(w.lock)
	w.nudge()
	return true
}
