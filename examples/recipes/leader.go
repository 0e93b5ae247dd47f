package recipes

import (
	"context"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// Scheduler lets one of all calling processes poll for work at an interval, until ctx ends.
func Scheduler(ctx context.Context, client *quorumlock.Client, every time.Duration, look func(ctx context.Context, token uint64) error) error {
	return election.Run(ctx, client, "scheduler", func(ctx context.Context, term election.Term) error {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			if err := look(ctx, term.Token); err != nil {
				log.Print(err) // To return the error would be to resign.
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return nil // The term has ended.
			}
		}
	})
}
