package sim

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock"
)

// readers turns some tasks of a case into readers, and some writers into downgraders.
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

// downgrade turns a writer into a reader. The witness records that before another process can see it.
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

// reads records that a lease is a reader's from now on.
func (w *witness) reads(lease *quorumlock.Lease) {
	w.seen.Lock()
	defer w.seen.Unlock()
	if r := w.all[lease]; r != nil {
		r.reads = true
	}
}

// last returns the largest token of a name that was granted so far. A reader that asks now gets no smaller one.
func (w *witness) last(names []string) (token uint64) {
	w.seen.Lock()
	defer w.seen.Unlock()
	for _, name := range names {
		token = max(token, w.largest[name])
	}
	return token
}

// checkToken checks the token of a granted lease. before was the largest token when it was requested: concurrent
// readers may get different tokens.
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

// outdated returns the token that shows that a lease is over, because the name was granted again: to a writer, if the
// lease is a reader's.
func (w *witness) outdated(name string, r *record) uint64 {
	if r != nil && r.reads {
		return w.written[name]
	}
	return w.largest[name]
}
