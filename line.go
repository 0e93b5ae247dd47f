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
// grant them, and whether those in the line spin, or read: who needs all nodes must not hold up those who
// are content with most, who looks from time to time not those who are woken, and who writes not
// those who read. Readers do not wait for each other.
type lineKey struct {
	id      string
	need    uint8
	several bool
	spins   bool
	reads   bool
}

// key is that of the line of those who want a lock.
func (l *Lock) key() lineKey {
	return lineKey{
		id: l.id[0], need: uint8(l.need), //nolint:gosec // of at most quorum.MaxNodes
		several: len(l.names) > 1 && l.slots == nil, spins: l.waiting == WaitSpin, reads: l.reads,
	}
}

// joined is several names in one, and no others.
func joined(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	var b strings.Builder
	for _, name := range names {
		b.WriteString(strconv.Itoa(len(name)))
		b.WriteByte(':')
		b.WriteString(name)
	}
	return b.String()
}

// line is who of this client holds the names, and who waits for them.
type line struct {
	// holder is the hold of this client, or nil.
	holder *hold
	// first and last are the ends of the line of waiters.
	first, last *waiter
	// asking is how many of them make an attempt, denied how many are known to wait for others.
	asking, denied int32
	// past is nil where nobody waits: there are as many lines as held locks.
	past *past
}

// past is what those who wait have to know of those before them.
type past struct {
	// freed is when a hold of this client ended last while somebody waited, in microseconds
	// by the wall clock: then the others have their turn.
	freed int64
	// Where nobody can be woken, since is when this client's turn began, and rest until when
	// it leaves the lock to those who look for it from time to time.
	since, rest time.Duration
	// err is what the last attempt of the line came to.
	err error
}

// before is what is known of those before; made if need be.
func (ln *line) before() *past {
	if ln.past == nil {
		ln.past = &past{}
	}
	return ln.past
}

// known is what is known of those before.
func (ln *line) known() past {
	if ln.past == nil {
		return past{}
	}
	return *ln.past
}

// attempted notes what the last attempt came to. If it is nil, what stood in the way before does
// not any more.
func (ln *line) attempted(err error) {
	if err != nil || ln.past != nil {
		ln.before().err = err
	}
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
	ln := ls.of(w.lock.key())
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
	if w.asking {
		ln.asking--
	}
	if w.denied {
		w.denied = false
		ln.denied--
	}
	first := w.before == nil
	w.line, w.before, w.after = nil, nil, nil
	if first && ln.first != nil && ln.first.isUp() {
		ln.first.nudge()
	}
	ls.tidy(w.lock.key(), ln)
}

// wait notes that a waiter has to wait for others. The mutex of the lines is held.
func (ln *line) wait(w *waiter) {
	if !w.denied {
		w.denied = true
		ln.denied++
	}
}

// took notes that this client holds the lock.
func (ls *lines) took(h *hold) {
	if h.lock.slots != nil || h.lock.reads {
		return // who holds some of a semaphore, or reads, is in nobody's way
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.of(h.lock.key())
	ln.holder = h
	if h.lock.waiting == WaitSpin {
		ln.before().takeTurn(h.grantedAt)
	}
}

// takeTurn begins the turn of a client whose waiters spin.
func (p *past) takeTurn(now time.Duration) {
	if p.since <= p.rest {
		p.since = now
	}
}

// gave notes that a hold has ended, and that its release is on its way.
func (ls *lines) gave(h *hold) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.by[h.lock.key()]
	if h.lock.slots != nil && ln != nil && ln.first != nil && ln.first.leads() {
		ln.first.hurry()
	}
	if ln == nil || ln.holder != h {
		return
	}
	ln.holder = nil
	if ln.first != nil {
		p := ln.before()
		p.freed = h.client.clock.Wall().UnixMicro()
		p.takeRest(h)
		ln.first.stale = true
		ln.first.nudge()
	}
	ls.tidy(h.lock.key(), ln)
}

// takeRest ends the turn of a client whose waiters spin, once it has lasted as long as a lease
// may be handed over. Those of others look at most RetryMax apart: one in a few of them
// finds the lock free in the meantime.
func (p *past) takeRest(h *hold) {
	cfg, now := &h.client.cfg, h.client.clock.Now()
	if h.lock.waiting == WaitSpin && now-p.since >= cfg.Handover.MaxTime {
		p.rest = now + cfg.RetryMax/4
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
	return w.line.holder, w.line.known().err
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
	return max(w.ticket, w.line.known().freed)
}

// pass gives what a hold has to whoever is first in its line, if that is one who would take
// it as it is. The tenure is made with the mutex held.
func (ls *lines) pass(h *hold, to func(*Lock) *tenure) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ln := ls.by[h.lock.key()]
	if ln == nil || ln.holder != h || ln.first == nil || !ln.first.inherits(h) {
		return false
	}
	w := ln.first
	ls.remove(w)
	w.given = to(w.lock)
	w.nudge()
	return true
}
