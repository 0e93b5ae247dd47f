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
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/quorum"
)

// Tamper is one intervention outside of the protocol that takes a lock from its holder.
type Tamper struct {
	At   time.Duration
	Name string
	// Force is set for a forced release by a client. Otherwise Name is deleted by hand on Nodes.
	Force  bool
	Client int
	Nodes  []int
}

// String describes the intervention.
func (t Tamper) String() string {
	if t.Force {
		return fmt.Sprintf("at %v c%d releases %q by force", t.At, t.Client+1, t.Name)
	}
	return fmt.Sprintf("at %v %q is deleted on the nodes %v", t.At, t.Name, t.Nodes)
}

// mostTampered bounds the latency of such a case, because its checks have deadlines.
const mostTampered = 20 * time.Millisecond

// drawTampering draws a case in which locks are released by force, and deleted by hand. Exclusion is not promised
// then. But a lease that lost its lock so must end, and say why. Nothing else goes wrong, so that this can be
// checked.
func drawTampering(seed uint64) *Case {
	c := drawLocks(seed)
	d := workload.NewDrawer(seed, 9)
	c.Kind, c.Opened, c.Faults, c.Timeout = OfTampering, true, nil, ttl/3
	c.listAll()
	for i := range c.Settings {
		c.Settings[i].TTL = 0 // the checks have deadlines
	}
	c.Weather = Weather{Least: c.Weather.Least, Most: max(min(c.Weather.Most, mostTampered), c.Weather.Least)}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		t.TTL, t.MinHold, t.Ending, t.Form = 0, 0, workload.Release, workload.AsLease
		if d.IntN(2) == 0 {
			t.Hold = d.Between(ttl/2, 3*ttl)
		}
	}
	for range 2 + d.IntN(4) {
		t := Tamper{At: d.UpTo(span - ttl), Name: names[min(d.IntN(4), 1)*d.IntN(2)], Force: d.IntN(2) == 0, Client: d.IntN(len(c.Clients))}
		n := len(c.Nodes)
		t.Nodes = d.Perm(n)[:min(quorum.Majority().Need(n)+d.IntN(3)-1+d.IntN(2), n)]
		slices.Sort(t.Nodes)
		c.Tampers = append(c.Tampers, t)
	}
	return c
}

type tampering struct {
	mu sync.Mutex
	// tampered is the time of the last intervention for each name.
	tampered map[string]time.Duration
	// asked is when a server first ran an acquisition of each owner.
	asked map[string]time.Duration
	// releases has, for each owner and node, whether its first release there removed the lock.
	releases map[string]map[int]bool
}

func newTampering() tampering {
	return tampering{tampered: make(map[string]time.Duration), asked: make(map[string]time.Duration), releases: make(map[string]map[int]bool)}
}

// excused reports whether a name was tampered with since an owner asked for it, or shortly before. Owners that come later
// exclude each other again, and have larger tokens than all before.
func (l *tampering) excused(name, owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.tampered[name]
	return ok && l.asked[owner] <= at+soonLost
}

func (l *tampering) touched(name string) bool { return l.touchedSince(name, 0) }

func (l *tampering) touchedSince(name string, since time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.tampered[name]
	return ok && at >= since
}

func (w *world) tamper(t Tamper) {
	w.apart.Sleep(t.At)
	w.note("%v", t)
	w.tampering.mu.Lock()
	w.tampering.tampered[t.Name] = w.now()
	w.tampering.mu.Unlock()
	if t.Force {
		w.force(t)
		return
	}
	for _, i := range t.Nodes {
		w.servers[i].deleteByHand(t.Name)
	}
}

// force releases a lock by force, and watches all leases that were valid before, and that a quorum of nodes knew. An
// attempt that a forced release interrupts may still succeed, with its second round.
func (w *world) force(t Tamper) {
	p, before := w.process(t.Client), w.valid(t.Name)
	status, err := workload.Use{Names: []string{t.Name}}.ForceRelease(context.Background(), p.client)
	w.tampering.mu.Lock()
	w.tampering.tampered[t.Name] = w.now() // also after an error: nodes may have carried it out
	w.tampering.mu.Unlock()
	if err != nil {
		w.note("the forced release failed: %v", err)
		return
	}
	known := make(map[string]int)
	for _, n := range status.Nodes {
		for _, h := range n.Holders {
			known[h.Owner]++
		}
	}
	for _, r := range w.valid(t.Name) {
		if known[r.lease.Owner()] >= status.Need && !r.fixed && slices.Contains(before, r) {
			left := r.lease.Remaining()
			w.Go(func() { w.endsForced(r, t.Name, left) })
		}
	}
}

// soonLost is the time within which a lease renews itself and gets the answers: far less than the TTL that it would
// have left otherwise.
const soonLost = ttl/3 + 6*mostTampered

// endsForced checks that a lease which was forced off ends, and says so. left is its validity after the forced
// release. If its renewals had failed before, for example as another of its names was taken, it may end by its time
// before a node tells it of the force.
func (w *world) endsForced(r *record, name string, left time.Duration) {
	w.apart.Sleep(soonLost)
	var lost *quorumlock.LostError
	switch err := r.lease.Err(); {
	case err == nil:
		w.violated(Losses, "the lease %s of %q by %s was released by force %v ago, and goes on", w.short(r.lease.Owner()), name, r.process.label, soonLost)
	case left >= soonLost && errors.As(err, &lost) && lost.Cause != quorumlock.LossForced:
		w.violated(Losses, "the lease %s of %q by %s was released by force, and says: %v", w.short(r.lease.Owner()), name, r.process.label, err)
	}
}

// valid returns the leases of a name that are valid now.
func (w *world) valid(name string) []*record {
	w.seen.Lock()
	defer w.seen.Unlock()
	return slices.DeleteFunc(slices.Clone(w.leases), func(r *record) bool { return !slices.Contains(r.held, name) || r.lease.Err() != nil })
}

// follows watches the leases that a new lease took the lock from. A lease that was handed over is new, but its owner may have
// come before a reader, and healed its lock since.
func (w *world) follows(next *quorumlock.Lease) {
	if w.c.Kind != OfTampering {
		return
	}
	for _, name := range next.Names() {
		for _, r := range w.valid(name) {
			if r.lease.Owner() != next.Owner() && next.Token() > r.lease.Token() && !r.fixed && w.hasMajority(name, next.Owner()) {
				w.Go(func() { w.endsTaken(r, next, name) })
			}
		}
	}
}

// endsTaken checks that a lease ends once another has its lock on a majority of the nodes.
func (w *world) endsTaken(r *record, next *quorumlock.Lease, name string) {
	began := w.now()
	w.apart.Sleep(soonLost)
	w.tampering.mu.Lock()
	undisturbed := w.tampering.tampered[name] < began
	w.tampering.mu.Unlock()
	if undisturbed && next.Err() == nil && w.hasMajority(name, next.Owner()) && r.lease.Err() == nil {
		w.violated(Losses, "the lease %s of %q by %s goes on, and %s has had the lock on a majority of the nodes for %v",
			w.short(r.lease.Owner()), name, r.process.label, w.short(next.Owner()), soonLost)
	}
}

// hasMajority reports whether a writer has a name on a majority of the nodes.
func (w *world) hasMajority(name, owner string) bool {
	n := 0
	for _, s := range w.servers {
		for _, h := range s.inspect(name).Holders {
			if h.Owner == owner && !h.Reads {
				n++
			}
		}
	}
	return n >= quorum.Majority().Need(len(w.servers))
}

func (s *server) deleteByHand(name string) {
	for _, h := range s.inspect(name).Holders {
		if h.Owner != wire.Readers {
			op := wire.Op{Kind: wire.Release, Names: []string{name}, Owner: h.Owner, Reads: h.Reads}
			s.node().Do(context.Background(), []wire.Op{op}, make([]wire.Reply, 1))
		}
	}
}

// ran records when owners first ask, and the outcomes of the releases in an exchange.
func (l *tampering) ran(server int, x *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, op := range x.ops {
		if _, known := l.asked[op.Owner]; op.Kind == wire.Acquire && !known {
			l.asked[op.Owner] = x.ran
		}
		if op.Kind != wire.Release || op.Owner == "" {
			continue
		}
		if l.releases[op.Owner] == nil {
			l.releases[op.Owner] = make(map[int]bool)
		}
		if _, ok := l.releases[op.Owner][server]; !ok {
			l.releases[op.Owner][server] = x.replies[i].Outcome == wire.Released && !x.replies[i].Partial
		}
	}
}

// released checks the error of a release. left is the validity that remained when the release
// was called: 0 if the lease had ended.
func (w *world) released(lease *quorumlock.Lease, need int, left time.Duration, err error) {
	had, missed := 0, 0
	w.tampering.mu.Lock()
	for _, removed := range w.tampering.releases[lease.Owner()] {
		if removed {
			had++
		} else {
			missed++
		}
	}
	w.tampering.mu.Unlock()
	var lost *quorumlock.LostError
	told := errors.As(err, &lost)
	told = told && slices.Contains(takenAway, lost.Cause)
	switch {
	case w.c.Kind != OfTampering || left < 5*mostTampered:
	case !told && missed > len(w.servers)-need:
		w.violated(Losses, "the release of %v (%s) returned %v, and %d of %d nodes did not have it",
			lease.Names(), w.short(lease.Owner()), err, missed, len(w.servers))
	case told && had >= need:
		w.violated(Losses, "the release of %v (%s) returned %v, and %d of %d nodes had it", lease.Names(), w.short(lease.Owner()), err, had, len(w.servers))
	}
	w.notTaken(lease, err)
}

// freed checks that a confirmed release has made the names free on enough nodes. One that takes no time is a hand-over. A
// duplicate of an operation may put a lock back, and so may another client of the same owner.
func (w *world) freed(lease *quorumlock.Lease, need int, took time.Duration, err error) {
	if err != nil || took == 0 || w.c.Weather.Double > 0 || w.c.Weather.Unordered {
		return
	}
	for _, key := range keysOf(lease) {
		n := 0
		for _, s := range w.servers {
			if left := s.keeps(key, lease.Owner()); left > 0 && left != gone {
				n++
			}
		}
		if n > len(w.servers)-need {
			w.violated(Tidiness, "the release of %q (%s) was confirmed, and %d of %d nodes keep it", key, w.short(lease.Owner()), n, len(w.servers))
		}
	}
}

// takenAway are the causes of losses that only tampering brings about.
var takenAway = []quorumlock.LossCause{quorumlock.LossForced, quorumlock.LossTaken, quorumlock.LossGone}

// notTaken checks that no lease reports a theft unless its lock was tampered with. A loss of memory that nodes notice
// is no theft.
func (w *world) notTaken(lease *quorumlock.Lease, err error) {
	var lost *quorumlock.LostError
	ok := errors.As(err, &lost)
	if ok && !w.c.moves() && slices.Contains(takenAway, lost.Cause) && !slices.ContainsFunc(lease.Names(), w.tampering.touched) {
		w.violated(Losses, "%s (%s) was not taken away, but reports it: %v", strings.Join(lease.Names(), " "), w.short(lease.Owner()), err)
	}
}

// forcedOff reports whether a client has begun to release one of the names by force less than a TTL ago.
func (w *world) forcedOff(names []string) bool {
	return slices.ContainsFunc(w.c.Tampers, func(t Tamper) bool {
		return t.Force && slices.Contains(names, t.Name) && t.At <= w.now() && w.now() < t.At+ttl
	})
}
