package recipes

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock"
)

// Ledger records finished runs. A table with the primary key (job, tick) is one.
type Ledger interface {
	Done(ctx context.Context, job string, tick time.Time) (bool, error)
	Record(ctx context.Context, job string, tick time.Time) error
}

// RunOnce runs a job for a tick of its schedule, unless it has run. All instances call it at each tick. One instance
// runs the job, and the others wait for the result. If it fails, or its instance dies, the next one runs it.
func RunOnce(ctx context.Context, client *quorumlock.Client, ledger Ledger, job string, tick time.Time, run func(ctx context.Context) error) error {
	return client.RedLock("cron:"+job).Do(ctx, func(ctx context.Context) error {
		if done, err := ledger.Done(ctx, job, tick); done || err != nil {
			return err
		}
		if err := run(ctx); err != nil {
			return err
		}
		return ledger.Record(ctx, job, tick)
	})
}
