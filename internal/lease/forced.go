package lease

import "time"

// lookTTL is the TTL of a renewal that only looks for tombstones. It is the shortest one, and a renewal
// shortens nothing.
const lookTTL = time.Millisecond

// OnForced handles the message of node i that an owner was forced off there. The message proves nothing. So
// once enough nodes have sent one to deny the lease its quorum, a renewal asks all nodes. Each further node
// causes one more renewal, since the messages may overtake the forced release on other nodes.
func (e *Engine) OnForced(i int, owner string) {
	for _, g := range e.scheduler.grantsOf(owner) {
		g.onForced(i)
	}
}

func (g *Grant) onForced(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.engine.Clock.Now()
	if g.state != stateHeld || now >= g.validUntil {
		return
	}
	x := g.lease.needExtra()
	if x.forced.Has(i) {
		return
	}
	x.forced = x.forced.With(i)
	switch {
	case x.forced.Len() <= g.claims.Nodes()-g.spec.Need:
	case g.spec.Fixed:
		g.renewFor(now, lookTTL, nil)
	default:
		g.renew(now, nil)
	}
}

// grantsOf returns the grants of an owner. It looks at all grants, as messages that need them are rare.
func (s *scheduler) grantsOf(owner string) (found []*Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range append([]grantHeap{s.queue}, s.starved...) {
		for _, g := range q {
			if g.owner == owner {
				found = append(found, g)
			}
		}
	}
	return found
}
