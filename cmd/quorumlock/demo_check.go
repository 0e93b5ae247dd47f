package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// seen waits until A gets answers from the given number of nodes, and knows that the others do not answer.
func (s *stage) seen(ctx context.Context, nodes int) error {
	what := fmt.Sprintf("A sees %d nodes answer", nodes)
	return eventually(ctx, what, func() bool {
		status, err := s.a.RedLock(demoLock).Inspect(ctx)
		if err != nil {
			return false
		}
		answered := 0
		for _, n := range status.Nodes {
			if n.Err == nil {
				answered++
			}
		}
		return answered == nodes
	})
}

// expectKeys checks the keys on all nodes. Undos may continue for a moment after a refusal.
func (s *stage) expectKeys(ctx context.Context, keys ...string) error {
	for _, n := range s.nodes {
		what := fmt.Sprintf("%s holds %q", n.Name(), keys)
		if err := eventually(ctx, what, func() bool { return slices.Equal(n.Keys(), keys) }); err != nil {
			return err
		}
	}
	return nil
}

// nextRenewal returns the next renewal event of this lease.
func nextRenewal(ctx context.Context, a *actor, lease *quorumlock.Lease) (quorumlock.RenewedEvent, error) {
	for {
		e, err := receive(ctx, a.renewed, a.name+" renews")
		if err != nil || e.Owner == lease.Owner() {
			return e, err
		}
	}
}

// stillWaits checks that B waits.
func stillWaits(waiting <-chan granted) error {
	select {
	case got := <-waiting:
		return unexpected("B still waits", got.err)
	default:
		return nil
	}
}

// eventually polls until a condition holds.
func eventually(ctx context.Context, what string, is func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		if _, err := receive(ctx, tick.C, what); err != nil {
			return err
		}
	}
	return nil
}

func receive[T any](ctx context.Context, events <-chan T, what string) (event T, err error) {
	select {
	case event = <-events:
		return event, nil
	case <-ctx.Done():
		return event, unexpected(what, context.Cause(ctx))
	}
}

// unexpected returns the error for an expected event that did not happen.
func unexpected(what string, err error) error {
	if err == nil {
		return fmt.Errorf("expected that %s, but it was not so", what)
	}
	return fmt.Errorf("expected that %s, but: %w", what, err)
}

func backing(lease *quorumlock.Lease) int {
	have, _ := lease.Backing()
	return have
}

// silentNodes returns the nodes that did not answer an operation.
func silentNodes(err error) (names []string) {
	if e, ok := errors.AsType[*quorumlock.NoQuorumError](err); ok {
		for _, n := range e.Nodes {
			names = append(names, n.Node)
		}
	}
	return names
}
