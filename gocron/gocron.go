// Package quorumcron makes gocron run each job on one of several instances: it provides a [gocron.Locker], which takes
// a lock for each run, and a [gocron.Elector], which lets one instance run all jobs.
//
//	locker := quorumcron.NewLocker(client, quorumlock.LockOptions{MinHold: 9 * time.Second})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
package quorumcron

import (
	"context"
	"errors"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// NewLocker returns a locker for gocron. The name of the job is the name of its lock, so instances need the same names
// of jobs, and gocron.WithName sets one. A run that does not get the lock at once is left out.
//
// MinHold of the options must be longer than the clocks of the instances differ. Otherwise an instance whose clock is
// late runs a short job again. gocron gives the job no context that ends with the lease: a job that must not go on
// after a loss takes the lock itself.
func NewLocker(client *quorumlock.Client, options quorumlock.LockOptions) gocron.Locker {
	return locker{client, options}
}

type locker struct {
	client  *quorumlock.Client
	options quorumlock.LockOptions
}

// Lock implements gocron.Locker.
func (l locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := l.client.RedLock(job).With(l.options).TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	return lock{lease}, nil
}

type lock struct{ lease *quorumlock.Lease }

// Unlock implements gocron.Lock.
func (l lock) Unlock(ctx context.Context) error { return l.lease.Release(ctx) }

// ErrNotLeader means that another instance runs the jobs, or none does.
var ErrNotLeader = errors.New("quorumcron: this instance does not lead")

// NewElector returns an elector for gocron. The candidate must stand for election meanwhile:
//
//	candidate := election.New(client, "jobs", election.Config{})
//	go candidate.Run(ctx, quorumcron.Lead)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(quorumcron.NewElector(candidate)))
//
// A job that runs when its instance stops leading goes on, and the next leader may run it too.
func NewElector(candidate *election.Election) gocron.Elector { return elector{candidate} }

type elector struct{ candidate *election.Election }

// IsLeader implements gocron.Elector.
func (e elector) IsLeader(context.Context) error {
	if _, leads := e.candidate.Leading(); !leads {
		return ErrNotLeader
	}
	return nil
}

// Lead is a lead function for [election.Election.Run] that leads until the term ends.
func Lead(ctx context.Context, _ election.Term) error {
	<-ctx.Done()
	return nil
}
