package recipes

import (
	"context"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// Scheduler has one of all processes that call it look for work every so often, until ctx ends.
func Scheduler(ctx context.Context, client *quorumlock.Client, every time.Duration, look func(ctx context.Context, token uint64) error) error {
	return election.Run(ctx, client, "scheduler", func(ctx context.Context, term election.Term) error {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			if err := look(ctx, term.Token); err != nil {
				log.Print(err) // and go on: to return it would be to resign
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return nil // lost, or told to stop
			}
		}
	})
}
