package quorumlock

import "context"

// Acquirer is so many permits of the semaphore, to be joined with other locks by [Join].
func (s *Semaphore) Acquirer(permits int) Acquirer { return semaphorePermits{s, permits} }

// semaphorePermits is some permits of a semaphore.
type semaphorePermits struct {
	semaphore *Semaphore
	permits   int
}

// parts makes it an Acquirer: all permits are taken at once, or none.
func (p semaphorePermits) parts() ([]joinPart, error) {
	if problems := p.semaphore.lockFor(p.permits).problems; len(problems) > 0 {
		return nil, &InvalidError{Problems: problems}
	}
	return []joinPart{{
		name: p.semaphore.name, kind: "semaphore", nodes: p.semaphore.client.sortedNodeNames(),
		take: func(ctx context.Context, wait bool) (*Lease, error) {
			if wait {
				return p.semaphore.Acquire(ctx, p.permits)
			}
			return p.semaphore.TryAcquire(ctx, p.permits)
		},
	}}, nil
}
