package recipes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// WithOrWithout runs a function under a lock. If too few nodes answer for five seconds, it runs the function without the
// lock, and other instances may run it at the same time.
func WithOrWithout(ctx context.Context, client *quorumlock.Client, name string, run func(ctx context.Context) error) error {
	lock, began := client.RedLock(name).With(quorumlock.LockOptions{MaxOutage: 5 * time.Second}), false
	err := lock.Do(ctx, func(ctx context.Context) error {
		began = true
		return run(ctx)
	})
	if began || ctx.Err() != nil || !errors.Is(err, quorumlock.ErrNoQuorum) {
		return err
	}
	if errors.Is(err, node.ErrLists) || errors.Is(err, node.ErrSettings) {
		return err // others may have the lock
	}
	slog.WarnContext(ctx, "working without a lock", slog.Any("err", err))
	return run(ctx)
}
