package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
)

// onceWindow is the window of work that is done once.
const onceWindow = 2 * ttl

// onceWork is what the simulation knows of work that is done once.
type onceWork struct {
	mu sync.Mutex
	// ended counts how often work of each name came to its end, and succeeded has the work whose record is confirmed.
	ended     map[string]int
	succeeded map[string][]success
}

// success is work that was done: when it began, and when it ended.
type success struct{ began, ended time.Duration }

// doesOnce does work that counts as done for a window. It checks that no other work succeeds in that window, and that no
// one is told of work that nobody has done. Where nodes lose their memory, a majority may.
//
//nolint:contextcheck // what the simulation does with a lease does not end with the context of the call
func (w *world) doesOnce(ctx context.Context, p *process, t Task, rng *rand.Rand, index int) error {
	u := t.Use
	u.Names, u.Permits, u.Reads, u.All = t.Names[:1], 0, false, false
	name := u.Names[0]
	var this success
	err := u.DoOnce(ctx, p.client, onceWindow, func(ctx context.Context, token uint64) error {
		this.began = w.now()
		owner := fmt.Sprintf("%s/once/%d/%d", p.label, index, w.now())
		err := w.worksIn(ctx, p, t, rng, index, w.grantedTo(p, u, index, owner, token, nil, nil))
		this.ended = w.now()
		w.once.mu.Lock()
		defer w.once.mu.Unlock()
		w.once.ended[name]++
		return err
	})
	w.once.mu.Lock()
	defer w.once.mu.Unlock()
	if errors.Is(err, quorumlock.ErrDone) && w.once.ended[name] == 0 {
		w.violated(Progress, "%s is told that %s is done, and nobody has done it", p.label, name)
	}
	if err != nil {
		return err
	}
	for _, other := range w.once.succeeded[name] {
		first, next := this, other
		if other.began < this.began {
			first, next = other, this
		}
		if !w.c.forgets() && next.began < first.ended+onceWindow*98/100 {
			w.violated(Exclusion, "%s was done from %v to %v, and again from %v to %v", name, first.began, first.ended, next.began, next.ended)
		}
	}
	w.once.succeeded[name] = append(w.once.succeeded[name], this)
	return nil
}
