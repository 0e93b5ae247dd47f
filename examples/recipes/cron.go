package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
)

// RunOnce runs a job for a tick of its schedule, unless it has run. All instances call it at each tick. One instance
// runs the job, and the others wait for the result. If it fails, or its instance dies, the next one runs it.
func RunOnce(ctx context.Context, client *quorumlock.Client, job string, tick time.Time, run func(ctx context.Context) error) error {
	once := client.Once(job+"@"+tick.UTC().Format(time.RFC3339), quorumlock.OnceOptions{Window: 24 * time.Hour})
	if err := once.Do(ctx, run); !errors.Is(err, quorumlock.ErrDone) {
		return err
	}
	return nil // an instance has run it
}
