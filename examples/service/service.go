package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
)

// Service is one replica.
type Service struct {
	Client    *quorumlock.Client
	Candidate *election.Election
	// Ledger books on an account. It refuses a token if it has seen a larger one, and allows three calls at once.
	Ledger  func(ctx context.Context, account string, token uint64) error
	Serving atomic.Bool
}

// patience is how long a request waits while too few nodes answer.
var patience = quorumlock.LockOptions{MaxOutage: 2 * time.Second}

// deposit books on an account. Deposits on one account take turns, over all replicas.
func (s *Service) deposit(ctx context.Context, account string) error {
	lock := s.Client.RedLock(account).With(patience)
	return lock.Do(ctx, func(ctx context.Context) error {
		token, _ := lock.Token(ctx)
		return s.book(ctx, account, token)
	})
}

// book calls the ledger with a permit. ctx ends when the lock or the permit is lost.
func (s *Service) book(ctx context.Context, account string, token uint64) error {
	permits := s.Client.Semaphore("ledger", 3).With(patience)
	return permits.Do(ctx, 1, func(ctx context.Context) error { return s.Ledger(ctx, account, token) })
}

// Work does what needs no request, until ctx ends: one replica audits, and one makes the report of each night.
func (s *Service) Work(ctx context.Context, night time.Duration) {
	var jobs sync.WaitGroup
	jobs.Go(func() {
		_ = Scheduler(ctx, s.Candidate, night/10, func(ctx context.Context, token uint64) error { return s.book(ctx, "auditor", token) })
	})
	Nightly(ctx, s.Client, "report", night, func(ctx context.Context, name string) error {
		token, _ := s.Client.RedLock(name).Token(ctx)
		return s.book(ctx, name, token)
	})
	jobs.Wait()
}
