package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Verdict is the result of a run.
type Verdict struct {
	// Violations are the broken promises, in the order of detection.
	Violations []Violation
	// History is the events, a line each, if it was traced.
	History []string
	// Grants counts grants of locks, Lost leases that ended by themselves.
	Grants, Lost int
	// Calls counts successful calls of a latch. Excused is set if so many nodes forgot the latch that little is
	// promised.
	Calls   int
	Excused bool
	// Took is the virtual time of the run.
	Took time.Duration
}

// Promise is a promise that a run checks.
type Promise string

// The promises.
const (
	Exclusion Promise = "exclusion"
	Tokens    Promise = "tokens"
	Finality  Promise = "finality"
	Progress  Promise = "progress"
	Waking    Promise = "waking"
	Order     Promise = "order"
	Tidiness  Promise = "tidiness"
	Counting  Promise = "counting"
	Losses    Promise = "losses"
)

// Violation says which promise was broken, how, and when.
type Violation struct {
	Promise Promise
	At      time.Duration
	Text    string
}

// String is the violation as a line.
func (v Violation) String() string { return fmt.Sprintf("%v: %s: %s", v.At, v.Promise, v.Text) }

// names are the names of all locks.
var names = []string{"a", "b"}

// witness sees every lease in true time: it knows more than any process.
type witness struct {
	world  *world
	traced bool

	seen       sync.Mutex
	leases     map[string][]*record
	all        map[*quorumlock.Lease]*record
	largest    map[string]uint64
	written    map[string]uint64 // the same, of writers
	granting   map[string]int    // how often each name was granted
	violations []Violation
	history    []string
	grants     int
	lost       int

	naming sync.Mutex
	ids    map[string]string
}

// record is a lease that a process may act on.
type record struct {
	lease *quorumlock.Lease
	// ctx is the context that the process got with the lease. One that is asked for later may end by
	// the clock alone.
	ctx     context.Context
	process *process
	// reads is set if it is a reader's, or has become one.
	reads bool
	// fixed is set if it does not renew itself.
	fixed bool
	// over is set once the lease has been seen to be over, by its process or by the witness.
	over bool
	// told is set once its process knows.
	told bool
}

func newWitness(w *world, traced bool) *witness {
	return &witness{
		world: w, traced: traced,
		leases:  make(map[string][]*record),
		all:     make(map[*quorumlock.Lease]*record),
		largest: make(map[string]uint64), written: make(map[string]uint64), granting: make(map[string]int),
		ids: make(map[string]string),
	}
}

// granted checks that a new lease is the only one, and that its token is larger than all before. No other lease can
// have become valid since the last grant, so a check now is enough.
func (w *witness) granted(p *process, lease *quorumlock.Lease) { w.grantedTo(p, lease, false, 0) }

// grantedTo is granted, also for readers, which exclude only writers.
func (w *witness) grantedTo(p *process, lease *quorumlock.Lease, reads bool, before uint64) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.look()
	w.grants++
	w.tell("%s has %v: %s with token %d, for %v", p.label, lease.Names(), w.short(lease.Owner()), lease.Token(), lease.Remaining())
	r := &record{lease: lease, ctx: lease.Context(), process: p, reads: reads}
	w.all[lease] = r
	for _, name := range held(lease) {
		w.checkToken(name, r, before)
		w.granting[name]++
		for _, other := range w.leases[name] {
			switch {
			case lease.Err() != nil, reads && other.reads:
			case other.lease.Err() == nil:
				w.violateOf(name, Exclusion, "two leases of %q are valid: %s of %s, and %s of %s", name,
					w.short(other.lease.Owner()), other.process.label, w.short(lease.Owner()), p.label)
			case other.ctx.Err() == nil && (other.process.settled() || errors.Is(other.lease.Err(), quorumlock.ErrReleased)):
				w.violateOf(name, Exclusion, "the lease of %q by %s of %s is over, and its context goes on beside %s of %s", name,
					w.short(other.lease.Owner()), other.process.label, w.short(lease.Owner()), p.label)
			}
		}
		w.leases[name] = append(w.leases[name], r)
	}
}

// renews notes whether a lease renews itself.
func (w *witness) renews(lease *quorumlock.Lease, renews bool) {
	w.seen.Lock()
	defer w.seen.Unlock()
	if r := w.all[lease]; r != nil {
		r.fixed = !renews
	}
}

// acts checks a lease that its holder is about to rely on.
func (w *witness) acts(p *process, lease *quorumlock.Lease) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.look()
	r := w.all[lease]
	if err := lease.Err(); err != nil {
		if !r.told {
			w.lost++
			w.tell("%s has lost %v (%s): %v", p.label, lease.Names(), w.short(lease.Owner()), err)
		}
		r.over, r.told = true, true
		return
	}
	for _, name := range held(lease) {
		if last := w.outdated(name, r); lease.Token() < last {
			w.violateOf(name, Finality, "%s acts under token %d of %q, after %d was granted", p.label, lease.Token(), name, last)
		}
	}
}

// look checks that no ended lease is valid again, whether its process noticed the end or was frozen then.
func (w *witness) look() {
	for _, name := range places {
		for _, r := range w.leases[name] {
			switch {
			case r.lease.Err() != nil:
				r.over = true
			case r.over:
				r.over = false
				w.violate(Finality, "lease %s of %s was over, and is valid again", w.short(r.lease.Owner()), r.process.label)
			}
		}
	}
}

// standing reports whether any of the names is leased, and the number of grants.
func (w *witness) standing(names []string) (leased bool, grants int) {
	w.seen.Lock()
	defer w.seen.Unlock()
	for _, name := range names {
		grants += w.granting[name]
		for _, r := range w.leases[name] {
			leased = leased || r.lease.Err() == nil
		}
	}
	return leased, grants
}

// looks is look with the mutex.
func (w *witness) looks() {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.look()
}

// finished forgets a lease that is no longer used.
func (w *witness) finished(lease *quorumlock.Lease) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.forget(func(r *record) bool { return r.lease == lease })
}

// swapped replaces a released lease by another that shares its grant.
func (w *witness) swapped(from, to *quorumlock.Lease) {
	w.seen.Lock()
	defer w.seen.Unlock()
	if r := w.all[from]; r != nil {
		delete(w.all, from)
		r.lease, w.all[to] = to, r
	}
}

// died forgets the leases of a process, which can no longer act.
func (w *witness) died(p *process) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.forget(func(r *record) bool { return r.process == p })
}

func (w *witness) forget(which func(*record) bool) {
	for name, list := range w.leases {
		var rest []*record
		for _, r := range list {
			if !which(r) {
				rest = append(rest, r)
			}
		}
		w.leases[name] = rest
	}
}

func (w *witness) violated(promise Promise, format string, args ...any) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.violate(promise, format, args...)
}

// note adds to the history.
func (w *witness) note(format string, args ...any) {
	if !w.traced {
		return
	}
	w.seen.Lock()
	defer w.seen.Unlock()
	w.tell(format, args...)
}

// violateOf is violate, unless so much was done to the name that nothing is promised for it.
func (w *witness) violateOf(name string, promise Promise, format string, args ...any) {
	if !w.world.tampering.excused(name) {
		w.violate(promise, format, args...)
	}
}

func (w *witness) violate(promise Promise, format string, args ...any) {
	v := Violation{promise, w.world.now(), w.named(fmt.Sprintf(format, args...))}
	w.violations = append(w.violations, v)
	w.tell("VIOLATION of %s: %s", promise, v.Text)
}

func (w *witness) tell(format string, args ...any) {
	if w.traced {
		w.history = append(w.history, fmt.Sprintf("%9.3fms  ", float64(w.world.now())/1e6)+w.named(fmt.Sprintf(format, args...)))
	}
}

func (w *witness) verdict() Verdict {
	w.seen.Lock()
	defer w.seen.Unlock()
	v := Verdict{Violations: w.violations, History: w.history, Grants: w.grants, Lost: w.lost, Took: w.world.now()}
	v.Calls, v.Excused = w.world.latch.sum()
	return v
}

// short shortens an owner for the history: letters replace the random ids of clients, in the order in which they
// appear.
func (w *witness) short(owner string) string {
	if owner == "" {
		return "nobody"
	}
	w.naming.Lock()
	defer w.naming.Unlock()
	id, sequence, _ := strings.Cut(owner, ":")
	if w.ids[id] == "" {
		w.ids[id] = string(rune('A' + len(w.ids)%26))
	}
	return w.ids[id] + sequence
}

// named shortens all owners in a text.
func (w *witness) named(text string) string {
	w.naming.Lock()
	defer w.naming.Unlock()
	for id, letter := range w.ids {
		text = strings.ReplaceAll(text, id+":", letter)
	}
	return text
}
