package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
)

var names = []string{"a", "b", neighbour}

// witness watches every lease in true time: it knows more than any process. It records its observations in a history
// for the judge. The simulation reports other broken promises to it directly.
type witness struct {
	world  *world
	traced bool
	// log is the history, and ticks its clock.
	log   history.Log
	ticks *ticks

	seen sync.Mutex
	// leases are the leases in use, in the order of their grants.
	leases     []*record
	granting   map[string]int // how often each name was granted
	violations []Violation
	lines      []string
	grants     int
	lost       int

	naming sync.Mutex
	ids    map[string]string
}

type record struct {
	lease *quorumlock.Lease
	// ctx is the context that the process got with the lease. One that is asked for later may end by
	// the clock alone.
	ctx     context.Context
	process *process
	// held are the names or slots of the lease, and parts its records in the history: one for each name of a lock,
	// or one for all permits.
	held  []string
	parts workload.Parts
	// keys are the names on the nodes. need nodes must keep each. short is set once they did not.
	keys  []string
	need  int
	short bool
	// reads is set if it is a reader's, or has become one.
	reads bool
	fixed bool
	// over is set once the lease has been seen to be over, by its process or by the witness.
	over bool
	told bool
	// kept is the time until which the nodes must keep its names, although the lease may be over.
	kept time.Duration
}

func newWitness(w *world, traced bool) *witness {
	return &witness{world: w, traced: traced, ticks: &ticks{Clock: w.clock, world: w}, granting: make(map[string]int), ids: make(map[string]string)}
}

// ticks is the clock of the history. No two of its times are equal, so events within one virtual instant keep their
// order.
type ticks struct {
	clock.Clock
	world *world
	mu    sync.Mutex
	last  time.Duration
}

// Now implements [clock.Clock].
func (t *ticks) Now() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = max(t.last+1, t.world.now())
	return t.last
}

// granted records a lease that a process has just got. Processes decide and return at one virtual instant. So the
// grant is not older than that, unless the attempts are recorded before: for a reader, whose token may be as old as
// the request.
//
// No other lease can have become valid since the last grant. So it is enough to look here whether other leases are
// still valid.
func (w *witness) granted(p *process, lease *quorumlock.Lease, u workload.Use, worker int, attempts ...workload.Attempt) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.lookLocked()
	w.grants++
	w.tell("%s has %v: %s with token %d, for %v", p.label, lease.Names(), w.short(lease.Owner()), lease.Token(), lease.Remaining())
	r := &record{
		lease: lease, ctx: lease.Context(), process: p, reads: u.Reads, fixed: u.Fixed, held: heldBy(lease.Names(), lease.Slots()),
		keys: keysOf(lease), need: p.need(u.All),
	}
	if attempts == nil {
		attempts = u.Attempts(p.recorder, worker)
	}
	if w.world.c.Kind == OfTampering { // whose leases must not revive either
		attempts = append(attempts, workload.Use{Names: []string{lease.Owner()}}.Attempts(p.recorder, worker)...)
	}
	for _, attempt := range attempts {
		if !w.excused(attempt.Name, lease.Owner()) {
			r.parts = append(r.parts, attempt.Granted(lease.Owner(), lease.Token(), lease.Slots()))
		}
	}
	for _, name := range r.held {
		w.granting[name]++
	}
	w.stillHeldLocked(r.held, r.reads, r)
	w.leases = append(w.leases, r)
	if lease.Err() == nil {
		w.confirm(r)
	}
}

// stillHeldLocked records which other leases of some names are valid beside a new one, or kept by the nodes.
func (w *witness) stillHeldLocked(names []string, reads bool, except *record) {
	for _, other := range w.leases {
		if other != except && other.has(names) && (!reads || !other.reads) && (other.mayBeUsed() || other.kept > w.world.now()) {
			w.confirm(other)
		}
	}
}

// keptUntil returns until when the nodes must keep the names of a lease, whatever becomes of it.
func (w *witness) keptUntil(lease *quorumlock.Lease) (until time.Duration) {
	w.update(lease, func(r *record) { until = r.kept })
	return until
}

// mayBeUsed reports whether a process may rely on a lease: the lease is valid, or its context has not ended although the
// process had time to end it.
func (r *record) mayBeUsed() bool {
	err := r.lease.Err()
	return err == nil || r.ctx.Err() == nil && (r.process.settled() || errors.Is(err, quorumlock.ErrReleased))
}

func (r *record) has(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.held, name) })
}

// excused reports whether nothing is promised to an owner about a name, since that was tampered with.
func (w *witness) excused(name, owner string) bool { return w.world.tampering.excused(name, owner) }

func (w *witness) confirm(r *record) {
	_ = w.partsOf(r).Record((*history.Holding).Act, func() error { return nil })
}

// acts records that the holder of a lease is about to rely on it, if it is valid.
func (w *witness) acts(lease *quorumlock.Lease) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.lookLocked()
	r := w.of(lease)
	err := lease.Err()
	switch {
	case r == nil:
	case err == nil:
		w.confirm(r)
	case !r.told:
		r.told = true
		w.lost++
		w.tell("%s has lost %v (%s): %v", r.process.label, lease.Names(), w.short(lease.Owner()), err)
	}
}

// lookLocked records which leases have ended, whether their processes noticed that or were frozen then, and which of these
// are valid again.
func (w *witness) lookLocked() {
	for _, r := range w.leases {
		switch err := r.lease.Err(); {
		case err == nil && r.over:
			w.confirm(r)
		case err == nil:
			w.backedLocked(r)
		case !r.over && r.kept <= w.world.now():
			r.over = true
			r.parts.Lost(err)
		}
	}
}

// backedLocked checks that enough nodes keep each key of a valid lease for longer than the lease lasts, or cannot grant
// it now. The clocks of nodes and clients differ by less than two percent.
func (w *witness) backedLocked(r *record) {
	if w.world.c.Kind == OfTampering || r.short || w.world.c.moves() {
		return // others may take the keys away, and a server that an address leads to lacks some
	}
	for _, key := range r.keys {
		var kept []time.Duration
		for _, s := range w.world.servers {
			kept = append(kept, s.keeps(key, r.lease.Owner()))
		}
		slices.Sort(kept)
		least := kept[len(kept)-r.need]
		if remaining := r.lease.Remaining(); remaining > least+least/50+time.Millisecond {
			r.short = true
			w.violatedLocked(w.world.now(), Finality, "%s relies on %q (%s) for %v, and fewer than %d nodes keep it for longer than %v",
				r.process.label, key, w.short(r.lease.Owner()), remaining, r.need, least)
		}
	}
}

func keysOf(lease *quorumlock.Lease) []string {
	if lease.Slots() == nil {
		return lease.Names()
	}
	var keys []string
	for _, slot := range lease.Slots() {
		keys = append(keys, wire.SlotName(wire.PoolName(lease.Names()[0]), slot))
	}
	return keys
}

// look is lookLocked with the mutex.
func (w *witness) look() {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.lookLocked()
}

// during records a call that changes a lease: a release or a downgrade.
func (w *witness) during(lease *quorumlock.Lease, as func(*history.Holding, func() error) error, call func() error) error {
	var parts workload.Parts
	w.update(lease, func(r *record) { parts = w.partsOf(r) })
	return parts.Record(as, call)
}

// partsOf returns the records of a lease, except under excused names.
func (w *witness) partsOf(r *record) workload.Parts {
	return slices.DeleteFunc(slices.Clone(r.parts), func(p workload.Part) bool { return w.excused(p.Name, r.lease.Owner()) })
}

// of returns the record of a lease in use; nil if there is none.
func (w *witness) of(lease *quorumlock.Lease) *record {
	i := slices.IndexFunc(w.leases, func(r *record) bool { return r.lease == lease })
	if i < 0 {
		return nil
	}
	return w.leases[i]
}

// isReader reports whether a lease only reads: a writer may have become a reader.
func (w *witness) isReader(r *record) bool {
	w.seen.Lock()
	defer w.seen.Unlock()
	return r.reads
}

// standing reports whether any of the names is leased, and the number of grants.
func (w *witness) standing(names []string) (leased bool, grants int) {
	w.seen.Lock()
	defer w.seen.Unlock()
	for _, name := range names {
		grants += w.granting[name]
	}
	return slices.ContainsFunc(w.leases, func(r *record) bool { return r.has(names) && (r.lease.Err() == nil || r.kept > w.world.now()) }), grants
}

// finished forgets a lease that is no longer used.
func (w *witness) finished(lease *quorumlock.Lease) {
	w.forget(func(r *record) bool { return r.lease == lease })
}

// died forgets the leases of a process, which can no longer act.
// What the nodes must keep stays.
func (w *witness) died(p *process) {
	w.forget(func(r *record) bool { return r.process == p && r.kept <= w.world.now() })
}

func (w *witness) forget(which func(*record) bool) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.leases = slices.DeleteFunc(slices.Clone(w.leases), which)
}

// update changes the record of a lease, if it is in use.
func (w *witness) update(lease *quorumlock.Lease, change func(*record)) {
	w.seen.Lock()
	defer w.seen.Unlock()
	if r := w.of(lease); r != nil {
		change(r)
	}
}

// heldBy returns the names of a lock, or the slots of permits.
func heldBy(names []string, slots []int) []string {
	if slots == nil {
		return names
	}
	var all []string
	for _, slot := range slots {
		all = append(all, fmt.Sprintf("permit %d", slot))
	}
	return all
}

func (w *witness) violated(promise Promise, format string, args ...any) {
	w.violatedAt(w.world.now(), promise, format, args...)
}

func (w *witness) violatedAt(at time.Duration, promise Promise, format string, args ...any) {
	w.seen.Lock()
	defer w.seen.Unlock()
	w.violatedLocked(at, promise, format, args...)
}

func (w *witness) violatedLocked(at time.Duration, promise Promise, format string, args ...any) {
	v := Violation{promise, at, w.named(fmt.Sprintf(format, args...))}
	w.violations = append(w.violations, v)
	w.tell("VIOLATION of %s: %s", promise, v.Text)
}

// note adds to the history that people read.
func (w *witness) note(format string, args ...any) {
	if !w.traced {
		return
	}
	w.seen.Lock()
	defer w.seen.Unlock()
	w.tell(format, args...)
}

func (w *witness) tell(format string, args ...any) {
	if w.traced {
		w.lines = append(w.lines, fmt.Sprintf("%9.3fms  ", float64(w.world.now())/1e6)+w.named(fmt.Sprintf(format, args...)))
	}
}

// short shortens an owner for the history: letters replace the random ids of clients, in the order in which they
// appear.
func (w *witness) short(owner string) string {
	if owner == "" {
		return "no owner"
	}
	w.naming.Lock()
	defer w.naming.Unlock()
	id, sequence, _ := strings.Cut(owner, ":")
	if w.ids[id] == "" {
		w.ids[id] = string(rune('A' + len(w.ids)%26))
	}
	return w.ids[id] + sequence
}

func (w *witness) named(text string) string {
	w.naming.Lock()
	defer w.naming.Unlock()
	for id, letter := range w.ids {
		text = strings.ReplaceAll(text, id+":", letter)
	}
	return text
}

func (w *world) ran(l *link, x *exchange) {
	for i := range x.ops {
		w.latch.answered(w, l.server.index, x.replies[i])
	}
	w.tampering.ran(l.server.index, x)
	if !w.traced {
		return
	}
	for i, op := range x.ops {
		w.note("%s asks %s to %s %v for %s (reads %t, token %d): %s",
			l.process.label, l.Name(), op.Kind, op.Names, w.short(op.Owner), op.Reads, op.Token, w.answer(x.replies[i]))
	}
}

// heard records a message from a server to a process in the history.
func (w *world) heard(l *link, m wire.Message) {
	switch {
	case !w.traced:
	case m.Waiter == "":
		w.note("%s finds its subscription to %s %v", l.process.label, l.Name(), m.Kind)
	default:
		w.note("%s tells %s: %v is %s, for %q", l.Name(), l.process.label, w.short(m.Waiter), m.Kind, m.Name)
	}
}

func (w *world) answer(r wire.Reply) string {
	switch {
	case r.Err != nil:
		return r.Err.Error()
	case r.Latch != nil:
		return fmt.Sprintf("%v, %+v", r.Outcome, *r.Latch)
	default:
		return fmt.Sprintf("%v, holder %s for %v, token %d, recovering for %v", r.Outcome, w.short(r.Holder.Owner), r.Holder.TTL, r.Token, r.Recovering)
	}
}
