package recipes

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// CronLocker is a gocron.Locker: one of the instances runs each job. A run is left out if the job runs elsewhere, or has
// begun within the window and ended.
type CronLocker struct {
	Client *quorumlock.Client
	// Window is shorter than the interval of the job, by more than the clocks of the instances differ. Instances need not
	// have started at the same time.
	Window time.Duration
}

// Lock implements gocron.Locker. The name of the job is the name of its lock.
func (l CronLocker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := l.Client.RedLock(job).TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	once := l.Client.Once(job, quorumlock.OnceOptions{Window: l.Window})
	if err := cmp.Or(once.Check(ctx), lease.Err()); err != nil { // this process may have stood still
		return nil, errors.Join(err, lease.Release(ctx))
	}
	return cronLock{l, job, lease, time.Now()}, nil
}

type cronLock struct {
	locker CronLocker
	job    string
	lease  *quorumlock.Lease
	began  time.Time
}

// Unlock implements gocron.Lock. The job counts as done, also if it failed: gocron does not tell. The context of the job has
// ended if the scheduler shuts down. The window counts from the beginning of the job, as the interval of gocron does, and both leave
// out the time for which the machine was suspended.
func (l cronLock) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quorumlock.DefaultTTL)
	defer cancel()
	left := (l.locker.Window - time.Since(l.began)).Truncate(time.Millisecond)
	once := l.locker.Client.Once(l.job, quorumlock.OnceOptions{Window: max(left, time.Second)})
	return errors.Join(once.Record(ctx, l.lease), l.lease.Release(ctx))
}

// CronElector is a gocron.Elector: the leader runs all jobs. Its candidate stands for election meanwhile.
type CronElector struct{ Candidate *election.Election }

// IsLeader implements gocron.Elector.
func (e CronElector) IsLeader(context.Context) error {
	if _, leads := e.Candidate.Leading(); !leads {
		return errors.New("another instance leads, or none does")
	}
	return nil
}
