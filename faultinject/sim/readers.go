package sim

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock"
)

// readers has some tasks of a case read what others write, and some that write read on.
func (d drawer) readers(c *Case) {
	if d.IntN(4) > 0 {
		return
	}
	most := 1 + d.IntN(3)
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.All || t.Permits > 0 || len(t.Names) > 1 {
			continue
		}
		t.Reads = d.IntN(4) < most
		t.Downgrade = !t.Reads && d.IntN(3) == 0
	}
}

// downgrade has a writer become a reader, in the eyes of the witness before anybody else can see
// it.
func (w *world) downgrade(p *process, lease *quorumlock.Lease, t Task) {
	if !p.awake() || lease.Err() != nil {
		return
	}
	w.reads(lease)
	err := p.client.RWLock(t.Names[0]).Downgrade(context.Background(), lease)
	w.note("%s only reads %v from now on (%s): %v", p.label, t.Names, w.short(lease.Owner()), err)
	if errors.Is(err, quorumlock.ErrShared) || errors.Is(err, quorumlock.ErrInvalid) {
		w.violated(Finality, "%s cannot become a reader of %v: %v", p.label, t.Names, err)
	}
}

// reads notes that a lease is a reader's from now on.
func (w *witness) reads(lease *quorumlock.Lease) {
	w.seen.Lock()
	defer w.seen.Unlock()
	if r := w.all[lease]; r != nil {
		r.reads = true
	}
}

// last is the largest token of a name that was granted so far: a reader that asks now gets none
// that is smaller.
func (w *witness) last(names []string) (token uint64) {
	w.seen.Lock()
	defer w.seen.Unlock()
	for _, name := range names {
		token = max(token, w.largest[name])
	}
	return token
}

// checkToken checks the token of a lease that was granted, where before was the largest when it
// was asked for: readers who ask at the same time may get different ones.
func (w *witness) checkToken(name string, r *record, before uint64) {
	token := r.lease.Token()
	switch {
	case r.reads && token < max(before, w.written[name]):
		w.violateOf(name, Tokens, "token %d of %q was given to the reader %s after %d", token, name, w.short(r.lease.Owner()), max(before, w.written[name]))
	case !r.reads && token <= w.largest[name]:
		w.violateOf(name, Tokens, "token %d of %q was granted to %s after %d", token, name, w.short(r.lease.Owner()), w.largest[name])
	}
	w.largest[name] = max(w.largest[name], token)
	if !r.reads {
		w.written[name] = max(w.written[name], token)
	}
}

// outdated is the token that shows that a lease is over, as somebody else was granted the name
// since: a writer, if it is a reader's.
func (w *witness) outdated(name string, r *record) uint64 {
	if r != nil && r.reads {
		return w.written[name]
	}
	return w.largest[name]
}
