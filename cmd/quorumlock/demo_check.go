package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
)

// seen waits until A gets an answer from so many nodes, and knows that the others do
// not answer.
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

// expectKeys checks what is on all nodes. Undoing goes on for a moment after a refusal.
func (s *stage) expectKeys(ctx context.Context, keys ...string) error {
	for _, n := range s.nodes {
		what := fmt.Sprintf("%s holds %q", n.Name(), keys)
		if err := eventually(ctx, what, func() bool { return slices.Equal(n.Keys(), keys) }); err != nil {
			return err
		}
	}
	return nil
}

// nextRenewal is the next of this lease that was not looked at.
func nextRenewal(ctx context.Context, a *actor, lease *quorumlock.Lease) (quorumlock.RenewedEvent, error) {
	for {
		e, err := receive(ctx, a.renewed, a.name+" renews")
		if err != nil || e.Owner == lease.Owner() {
			return e, err
		}
	}
}

// stillWaits checks that B does.
func stillWaits(waiting <-chan granted) error {
	select {
	case got := <-waiting:
		return unexpected("B still waits", got.err)
	default:
		return nil
	}
}

// eventually waits until something is so.
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

// receive waits for an event.
func receive[T any](ctx context.Context, events <-chan T, what string) (event T, err error) {
	select {
	case event = <-events:
		return event, nil
	case <-ctx.Done():
		return event, unexpected(what, context.Cause(ctx))
	}
}

// unexpected is the error for what should have happened and did not.
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

// silentNodes are the nodes that an operation got no answer from.
func silentNodes(err error) (names []string) {
	if e, ok := errors.AsType[*quorumlock.NoQuorumError](err); ok {
		for _, n := range e.Nodes {
			names = append(names, n.Node)
		}
	}
	return names
}
