package wait

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
)

// A client remembers a denial for denialMemory, and at most maxDenials of them.
const (
	denialMemory = 10 * time.Second
	maxDenials   = 1024
)

// denials are the locks for which waiters of this client were denied lately, with the time of the last denial.
//
// The first attempt for such a lock carries a ticket, so that another denial queues it at once. Nodes run an
// acquisition with a ticket, and its release, in script calls of their own. So the first attempts for all other
// locks carry none: they share one script call with the other operations of the client.
type denials map[queueKey]time.Duration

// record records a denial. If it is one too many, it forgets all others: they cost an attempt each.
func (d *denials) record(key queueKey, now time.Duration) {
	if _, known := (*d)[key]; *d == nil || !known && len(*d) >= maxDenials {
		*d = make(denials)
	}
	(*d)[key] = now
}

// recent reports whether there was a denial lately.
func (d denials) recent(key queueKey, now time.Duration) bool {
	at, known := d[key]
	return known && now-at < denialMemory
}

// sharesCalls reports whether operations for this spec share script calls with others. A denial of any other kind is not
// recorded, as it would push out those that are asked for.
func sharesCalls(s *lease.Spec) bool {
	return !s.Reads && !s.Spins && s.Slots == nil && len(s.Names) == 1
}

// needsTicket reports whether the waiter's next attempt should carry a ticket, if messages of nodes can arrive.
func (w *waiter) needsTicket() bool {
	if w.attempts > 1 || !sharesCalls(w.spec) {
		return true
	}
	qs := w.queues
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.denials.recent(keyOf(w.spec), w.began)
}
