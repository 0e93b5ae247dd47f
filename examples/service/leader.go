package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/election"
)

// Scheduler lets one of all candidates look for work at an interval, until ctx ends.
func Scheduler(ctx context.Context, candidate *election.Election, every time.Duration, look func(ctx context.Context, token uint64) error) error {
	return candidate.Run(ctx, func(ctx context.Context, term election.Term) error {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			if err := look(ctx, term.Token); err != nil && ctx.Err() == nil {
				slog.Error("the leader failed", slog.Any("err", err)) // To return the error would be to resign.
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return nil // The term has ended.
			}
		}
	})
}
