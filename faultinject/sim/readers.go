package sim

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
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

// downgrade turns a writer into a reader. That is recorded before another process can see it.
func (w *world) downgrade(p *process, lease *quorumlock.Lease, t Task) {
	if !p.awake() || lease.Err() != nil {
		return
	}
	w.update(lease, func(r *record) { r.reads = true })
	err := w.during(lease, (*history.Holding).Downgrade, func() error {
		return p.client.RWLock(t.Names[0]).Downgrade(context.Background(), lease)
	})
	w.note("%s only reads %v from now on (%s): %v", p.label, t.Names, w.short(lease.Owner()), err)
	if errors.Is(err, quorumlock.ErrShared) || errors.Is(err, quorumlock.ErrInvalid) {
		w.violated(Finality, "%s cannot become a reader of %v: %v", p.label, t.Names, err)
	}
}
