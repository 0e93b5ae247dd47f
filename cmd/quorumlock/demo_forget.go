package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// forgetful are the nodes that lose their memory: a majority.
var forgetful = []int{1, 2, 3}

// forgets: a majority loses its memory while A holds the lock, and no other client gets it.
func (s *stage) forgets(ctx context.Context) error {
	pause(ctx)
	s.chapter("Three nodes lose their memory while the lock is held")
	held, err := s.takes(ctx)
	if err != nil {
		return err
	}
	if err := s.crash(); err != nil {
		return err
	}
	waiting, err := s.isKeptOut(ctx)
	if err != nil {
		return err
	}
	if err := s.heals(ctx, held); err != nil {
		return err
	}
	if err := s.outlives(ctx, held, waiting); err != nil {
		return err
	}
	return s.getsItNext(ctx, held, waiting)
}

// crash restarts nodes that store nothing on disk.
func (s *stage) crash() error {
	for _, n := range forgetful {
		m := s.nodes[n-1]
		m.Crash()
		if keys := m.Keys(); len(keys) > 0 {
			return fmt.Errorf("expected that %s has forgotten everything, but it knows %q", m.Name(), keys)
		}
	}
	s.tellNodes("%s restart with an empty memory: a majority has forgotten A's lock", s.names(forgetful))
	return nil
}

// isKeptOut: the nodes that forgot A's lock do not give it to B.
func (s *stage) isKeptOut(ctx context.Context) (<-chan granted, error) {
	_, err := s.b.RedLock(demoLock).TryAcquire(ctx)
	if !errors.Is(err, quorumlock.ErrHeld) && !errors.Is(err, quorumlock.ErrNoQuorum) {
		return nil, unexpected("B is refused", err)
	}
	nodes, left, err := s.recovering(ctx)
	if err != nil || !slices.Equal(nodes, forgetful) {
		return nil, unexpected("three nodes know that they have forgotten something", err)
	}
	s.b.tells("is refused all the same: the three know that they have forgotten something, and give no locks for %v", round(left))
	s.b.tells("waits")
	return s.waits(ctx), nil
}

// heals: A's next renewal puts the lock back on the nodes that forgot it.
func (s *stage) heals(ctx context.Context, held *quorumlock.Lease) error {
	for _, n := range forgetful {
		m := s.nodes[n-1]
		what := m.Name() + " has the lock again"
		if err := eventually(ctx, what, func() bool { return slices.Equal(m.Keys(), []string{demoLock}) }); err != nil {
			return errors.Join(err, held.Err())
		}
	}
	nodes, _, err := s.recovering(ctx)
	if err != nil || !slices.Equal(nodes, forgetful) {
		return unexpected("the nodes take A's renewal while they recover", err)
	}
	s.a.tells("renews, which puts the lock back on %s: holders may keep theirs", s.names(forgetful))
	return nil
}

// outlives: the recovery is longer than a lease without renewal, and two nodes alone could not have renewed A's
// lease.
func (s *stage) outlives(ctx context.Context, held *quorumlock.Lease, waiting <-chan granted) error {
	for {
		nodes, _, err := s.recovering(ctx)
		if err != nil {
			return err
		}
		if len(nodes) == 0 {
			break
		}
		if err := s.renews(ctx, s.a, held); err != nil {
			return err
		}
	}
	status, err := s.a.RedLock(demoLock).Inspect(ctx)
	if err != nil || held.Err() != nil || status.Holder() != held.Owner() || backing(held) != demoNodes {
		return unexpected("A's lease lives on, backed by all nodes", errors.Join(err, held.Err()))
	}
	if err := stillWaits(waiting); err != nil {
		return err
	}
	s.tellNodes("%s give locks again: everything that they may have forgotten has expired", s.names(forgetful))
	s.a.tells("still holds %q, backed by all %d nodes, and B still waits", demoLock, demoNodes)
	return nil
}

// getsItNext: after the recovery, the lock changes hands as usual.
func (s *stage) getsItNext(ctx context.Context, held *quorumlock.Lease, waiting <-chan granted) error {
	if err := held.Release(ctx); err != nil {
		return unexpected("A's release is confirmed", err)
	}
	s.a.tells("releases the lock")
	got, err := receive(ctx, waiting, "B gets the lock")
	if err != nil || got.err != nil {
		return unexpected("B gets the lock", errors.Join(err, got.err))
	}
	if err := s.grows(got.lease); err != nil {
		return err
	}
	s.b.tells("has it; its token is %d, the largest of all %d", got.lease.Token(), len(s.tokens))
	if err := got.lease.Release(ctx); err != nil {
		return unexpected("B's release is confirmed", err)
	}
	return nil
}

// recovering returns the numbers of the nodes that grant no new locks, and how long that lasts.
func (s *stage) recovering(ctx context.Context) (numbers []int, left time.Duration, err error) {
	status, err := s.b.RedLock(demoLock).Inspect(ctx)
	if err != nil {
		return nil, 0, unexpected("all nodes answer", err)
	}
	for i, n := range status.Nodes {
		if n.Recovering > 0 {
			numbers, left = append(numbers, i+1), max(left, n.Recovering)
		}
	}
	return numbers, left, nil
}

// grows checks that a lease has a larger token than all earlier leases of the lock.
func (s *stage) grows(lease *quorumlock.Lease) error {
	token := lease.Token()
	for _, before := range s.tokens {
		if token <= before {
			return fmt.Errorf("expected that tokens grow, but %d follows %d", token, before)
		}
	}
	s.tokens = append(s.tokens, token)
	return nil
}
