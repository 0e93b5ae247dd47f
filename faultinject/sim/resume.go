package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/node"
)

// resuming watches leases that clients resume.
type resuming struct {
	mu sync.Mutex
	// estates are the leases that tasks leave to successors, by their owners.
	estates          map[string]*estate
	resumed, refused int
}

func newResuming() resuming { return resuming{estates: make(map[string]*estate)} }

// estate is a lease that several clients may hold, one after the other or at once.
type estate struct {
	token   uint64
	handles []*handle
	// until is a time until which the nodes keep the lock.
	until time.Duration
	// forced is set once the owner is released by force.
	forced bool
	// proofs are the answers of nodes that proved the lease.
	proofs []proof
}

// handle is the lease of one client.
type handle struct {
	lease   *quorumlock.Lease
	process *process
	// left is set once the client has left the lock to the nodes. Otherwise it frees the lock when the lease ends.
	left bool
}

// proof is an answer that has reached a process.
type proof struct {
	process *process
	server  int
	// ran is when the server carried out the operation, and came when the answer arrived.
	ran, came time.Duration
}

// startSuccessors starts the successors of a lease that was just granted.
func (w *world) startSuccessors(successors *sync.WaitGroup, p *process, lease *quorumlock.Lease, t Task, index int) {
	if t.Left == nil {
		return
	}
	owner, token := lease.Owner(), lease.Token()
	w.resuming.mu.Lock()
	w.resuming.estates[owner] = &estate{token: token}
	w.resuming.mu.Unlock()
	w.resuming.add(w.now(), p, lease)
	for i, h := range t.Left.Successors {
		successors.Go(func() { w.inherit(t, h, owner, token, index, i) })
	}
	if t.Left.Forced > 0 {
		successors.Go(func() { w.releaseOwner(t, owner, token, index) })
	}
}

// add records a lease of an estate.
func (r *resuming) add(now time.Duration, p *process, lease *quorumlock.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.estates[lease.Owner()]
	e.handles = append(e.handles, &handle{lease: lease, process: p})
	e.until = max(e.until, now+lease.Remaining())
}

// leaves ends a lease as its task wants, without a release. It reports false if the task has to release it.
func (w *world) leaves(p *process, lease *quorumlock.Lease, t Task) bool {
	switch t.Left.Ends {
	case detaches:
		w.detach(p, lease, t)
		return true
	case dies:
		if w.process(t.Client) == p {
			w.note("%s dies, and leaves %v (%s)", p.label, t.Names, w.short(lease.Owner()))
			w.killOnRequest(faultinject.Step{Fault: faultinject.Murder, Client: t.Client, For: 10 * time.Millisecond})
		}
		return true
	case expires:
		<-lease.Context().Done()
		return !p.awake()
	}
	return false
}

func (w *world) detach(p *process, lease *quorumlock.Lease, t Task) {
	w.note("%s leaves %v (%s) to others", p.label, t.Names, w.short(lease.Owner()))
	w.acts(lease)
	w.update(lease, func(r *record) { r.over = true }) // its end is no loss
	left := w.now() + lease.Remaining()
	err := w.during(lease, (*history.Holding).Detach, lease.Detach)
	w.notTaken(lease, err)
	w.finished(lease)
	if err != nil {
		return
	}
	w.resuming.mu.Lock()
	defer w.resuming.mu.Unlock()
	e := w.resuming.estates[lease.Owner()]
	e.until = max(e.until, left)
	for _, h := range e.handles {
		h.left = h.left || h.lease == lease
	}
}

// died records that a process has left its valid leases to the nodes.
func (r *resuming) died(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.estates {
		for _, h := range e.handles {
			h.left = h.left || h.process == p && h.lease.Err() == nil
		}
	}
}

// freedByOther reports whether the lock of a lease may have been freed other than by its own client.
func (r *resuming) freedByOther(lease *quorumlock.Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.estates[lease.Owner()]
	return e != nil && e.freed(lease)
}

// forcedOff reports whether a client has begun to release the owner of a lease by force, or one of its names less
// than a TTL ago.
func (w *world) forcedOff(lease *quorumlock.Lease, names []string) bool {
	w.resuming.mu.Lock()
	e := w.resuming.estates[lease.Owner()]
	forced := e != nil && e.forced
	w.resuming.mu.Unlock()
	return forced || slices.ContainsFunc(w.c.Tampers, func(t Tamper) bool {
		return t.Force && slices.Contains(names, t.Name) && t.At <= w.now() && w.now() < t.At+ttl
	})
}

// freed reports whether a client has freed the lock, except the client of one lease. Requires the mutex.
func (e *estate) freed(except *quorumlock.Lease) bool {
	return e.forced || slices.ContainsFunc(e.handles, func(h *handle) bool {
		return h.lease != except && !h.left && h.lease.Err() != nil
	})
}

// releaseOwner releases the owner of a lease by force.
func (w *world) releaseOwner(t Task, owner string, token uint64, index int) {
	time.Sleep(t.Left.Forced)
	p := w.process(t.Left.By)
	if p == nil || !p.awake() || w.now() > span {
		return
	}
	w.note("%s releases %s by force", p.label, w.short(owner))
	w.resuming.mu.Lock()
	w.resuming.estates[owner].forced = true
	w.resuming.mu.Unlock()
	release := func() error {
		_, err := t.Lock(p.client).ReleaseOwner(context.Background(), owner)
		return err
	}
	for _, name := range t.Names {
		inner := release
		release = func() error { return p.recorder.ReleaseOwner(index, owner, token, inner, name) }
	}
	_ = release()
}

// inherit makes a successor resume a lease, and use it.
func (w *world) inherit(t Task, h successor, owner string, token uint64, index, number int) {
	time.Sleep(h.After + taskOffset(index)/7*time.Duration(number+1))
	t.Client, t.Hold, t.Extend = h.Client, h.Hold, h.Extend
	t.Left = &succession{Ends: h.Ends}
	rng := rand.New(rand.NewPCG(w.c.Seed, uint64(1000+16*index+number)))
	for range h.Again + 1 {
		p := w.process(h.Client)
		if p == nil || !p.awake() || w.now() > span {
			return
		}
		if lease := w.resume(p, t, h, owner, token, index); lease != nil {
			w.use(p, lease, t, rng, index)
			return
		}
		time.Sleep(time.Duration(rng.Int64N(int64(ttl) / 4)))
	}
}

// resume makes one attempt to resume a lease. It returns nil if that failed.
func (w *world) resume(p *process, t Task, h successor, owner string, token uint64, index int) *quorumlock.Lease {
	began := w.now()
	due := w.mustResume(owner)
	if h.Wrong {
		token++
	}
	w.note("%s wants %v of %s with token %d", p.label, t.Names, w.short(owner), token)
	attempts := t.Resumptions(p.recorder, index, owner, token)
	lease, err := t.Lock(p.client).Resume(context.Background(), owner, token)
	w.resuming.mu.Lock()
	e := w.resuming.estates[owner]
	due = due && !e.freed(nil) // it may have been freed meanwhile
	if err == nil {
		w.resuming.resumed++
	} else {
		w.resuming.refused++
	}
	w.resuming.mu.Unlock()
	if err != nil {
		for _, a := range attempts {
			a.Failed(err)
		}
		w.note("%s cannot resume %s: %v", p.label, w.short(owner), err)
		switch alive := w.process(h.Client) == p; {
		case !due || !alive || h.Wrong && errors.Is(err, quorumlock.ErrInvalid):
		case h.Wrong:
			w.violated(Resuming, "%s wants %v of %s with a wrong token, and is told: %v", p.label, t.Names, w.short(owner), err)
		default:
			w.violated(Resuming, "%s cannot resume %v of %s, although nothing goes wrong: %v", p.label, t.Names, w.short(owner), err)
		}
		return nil
	}
	w.proven(p, t, lease, began)
	w.resuming.add(w.now(), p, lease)
	w.granted(p, lease, t.Use, index, attempts...)
	return lease
}

// mustResume reports whether a client must succeed in resuming a lease now. Clients ask once, so no node may seem to
// be too slow.
func (w *world) mustResume(owner string) bool {
	weather := w.c.Weather
	prompt := 4*weather.Most < w.c.settings().NodeTimeoutMin
	quiet := w.c.Opened && len(w.c.Faults) == 0 && prompt && weather.Lose+weather.Double+weather.Forget == 0 && !weather.Unordered
	w.resuming.mu.Lock()
	defer w.resuming.mu.Unlock()
	e := w.resuming.estates[owner]
	return quiet && w.now()+4*weather.Most+resumeMargin < e.until && !e.freed(nil)
}

// resumeMargin is the time that a resumption takes beyond the network: a successor's client may be busy.
const resumeMargin = 50 * time.Millisecond

// proven checks that as many nodes proved a resumed lease as the rule needs, and that it ends before they let go.
func (w *world) proven(p *process, t Task, lease *quorumlock.Lease, began time.Duration) {
	w.resuming.mu.Lock()
	e := w.resuming.estates[lease.Owner()]
	last := make(map[int]time.Duration)
	for _, proof := range e.proofs {
		if proof.process == p && proof.came >= began {
			last[proof.server] = max(last[proof.server], proof.ran)
		}
	}
	token := e.token
	w.resuming.mu.Unlock()
	var ran []time.Duration
	for _, at := range last {
		ran = append(ran, at)
	}
	slices.Sort(ran)
	slices.Reverse(ran)
	need := w.needOf(t)
	end := w.now() + lease.Remaining()
	length := t.TTL
	switch {
	case lease.Token() != token:
		w.violated(Resuming, "%s resumed %s with token %d, and it has %d", p.label, w.short(lease.Owner()), lease.Token(), token)
	case len(ran) < need:
		w.violated(Resuming, "%s resumed %v (%s), and %d nodes proved it instead of %d", p.label, t.Names, w.short(lease.Owner()), len(ran), need)
	case end > ran[need-1]+length:
		w.violated(Resuming, "%s resumed %v (%s) until %v, and too few nodes keep it beyond %v", p.label, t.Names, w.short(lease.Owner()), end, ran[need-1]+length)
	}
}

// proves records the answers that prove a lease, when they reach their process.
func (r *resuming) proves(x *exchange) {
	for i, op := range x.ops {
		if op.Kind != node.Resume || x.replies[i].Err != nil || x.replies[i].Outcome != node.Granted {
			continue
		}
		r.mu.Lock()
		if e := r.estates[op.Owner]; e != nil {
			e.proofs = append(e.proofs, proof{x.link.process, x.link.server.index, x.ran, x.link.server.world.now()})
		}
		r.mu.Unlock()
	}
}
