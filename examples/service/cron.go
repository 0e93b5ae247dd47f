package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Nightly runs a job once for each tick, until ctx ends. All instances call it. One of them runs the job, and the others
// wait for the result. If it fails, or its instance dies, the next one runs it.
func Nightly(ctx context.Context, client *quorumlock.Client, job string, every time.Duration, run func(ctx context.Context, name string) error) {
	for ctx.Err() == nil {
		tick := time.Now().Truncate(every)
		name := job + "@" + tick.UTC().Format(time.RFC3339)
		next, cancel := context.WithDeadline(ctx, tick.Add(every))
		once := client.Once(name, quorumlock.OnceOptions{Window: 2 * every})
		err := once.Do(next, func(ctx context.Context) error { return run(ctx, name) })
		if err != nil && !errors.Is(err, quorumlock.ErrDone) { // ErrDone: an instance has run it
			slog.Error("the job failed here", slog.String("job", name), slog.Any("err", err))
		}
		<-next.Done()
		cancel()
	}
}
