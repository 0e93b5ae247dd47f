package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// CronLocker is a gocron.Locker: one of the instances runs each job. A run that does not get its lock at once is left
// out.
type CronLocker struct {
	Client *quorumlock.Client
	// MinHold is longer than the clocks of the instances differ. Otherwise an instance whose clock is late runs a short
	// job again.
	MinHold time.Duration
}

// Lock implements gocron.Locker. The name of the job is the name of its lock.
func (l CronLocker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := l.Client.RedLock(job).With(quorumlock.LockOptions{MinHold: l.MinHold}).TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	return cronLock{lease}, nil
}

type cronLock struct{ lease *quorumlock.Lease }

// Unlock implements gocron.Lock.
func (l cronLock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }

// CronElector is a gocron.Elector: the leader runs all jobs. Its candidate stands for election meanwhile.
type CronElector struct{ Candidate *election.Election }

// IsLeader implements gocron.Elector.
func (e CronElector) IsLeader(context.Context) error {
	if _, leads := e.Candidate.Leading(); !leads {
		return errors.New("another instance leads, or none does")
	}
	return nil
}
