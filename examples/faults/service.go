// Package faults shows how to test a service of your own under faults. This file is the service, and service_test.go
// the test.
package faults

import (
	"context"
	"sync"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// Ledger is the resource that the service writes to: in practice, a table.
type Ledger struct {
	gate  fence.Gate
	mu    sync.Mutex
	Lines []uint64 // the token of each line
}

// Write appends a line, unless a later holder of the lock has written already.
func (l *Ledger) Write(token uint64) error {
	return l.gate.Do(token, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.Lines = append(l.Lines, token)
		return nil
	})
}

// Count returns the number of lines.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.Lines)
}

// Service writes to the ledger repeatedly, one instance at a time.
type Service struct {
	Client *quorumlock.Client
	Ledger *Ledger
}

// Run works until ctx ends. If it cannot acquire the lock, or loses it, it tries again.
func (s *Service) Run(ctx context.Context) {
	lock := s.Client.RedLock("ledger")
	for ctx.Err() == nil {
		_ = lock.Do(ctx, func(ctx context.Context) error {
			token, _ := lock.Token(ctx)
			return s.Ledger.Write(token)
		})
	}
}
