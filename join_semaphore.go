package quorumlock

import "context"

// Acquirer is so many permits of the semaphore, to be joined with other locks by [Join].
func (s *Semaphore) Acquirer(permits int) Acquirer { return permitsOf{s, permits} }

// permitsOf is some permits of a semaphore.
type permitsOf struct {
	semaphore *Semaphore
	permits   int
}

// parts makes it an Acquirer: all permits are taken at once, or none.
func (p permitsOf) parts() ([]part, error) {
	if problems := p.semaphore.of(p.permits).problems; len(problems) > 0 {
		return nil, &InvalidError{Problems: problems}
	}
	return []part{{
		name: p.semaphore.name, kind: "semaphore", nodes: p.semaphore.client.nodeNames(),
		take: func(ctx context.Context, wait bool) (*Lease, error) {
			if wait {
				return p.semaphore.Acquire(ctx, p.permits)
			}
			return p.semaphore.TryAcquire(ctx, p.permits)
		},
	}}, nil
}
