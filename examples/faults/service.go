// Package faults is a small service with all its tests. docs/your-own-service.md explains it.
package faults

import (
	"context"
	"errors"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

// Line is an entry of the ledger.
type Line struct {
	Writer string
	Token  uint64
	At     time.Time
}

// Ledger is the resource that the service writes to. In practice, it is a table.
type Ledger struct {
	gate  fence.Gate
	mu    sync.Mutex
	lines []Line
}

// Write appends a line, unless a later holder of the lock has written already.
func (l *Ledger) Write(writer string, token uint64) error {
	return l.gate.Do(token, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, Line{writer, token, time.Now()})
		return nil
	})
}

// Lines returns all lines so far.
func (l *Ledger) Lines() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Service writes a line at each Interval, one instance at a time.
type Service struct {
	Name     string
	Lock     *quorumlock.Lock
	Ledger   *Ledger
	Interval time.Duration
}

// Run works until ctx ends. After a loss of the lock it waits for the lock again. It returns an error only if waiting
// cannot help.
func (s *Service) Run(ctx context.Context) error {
	for {
		err := s.Lock.Do(ctx, s.turn)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, quorumlock.ErrLost), errors.Is(err, fence.ErrStale):
			log.Printf("%s: %v", s.Name, err)
		case err != nil:
			return err
		}
	}
}

// turn writes ten lines, and then lets another instance have its turn. ctx ends when the lock is lost.
func (s *Service) turn(ctx context.Context) error {
	token, _ := s.Lock.Token(ctx)
	ticks := time.NewTicker(s.Interval)
	defer ticks.Stop()
	for range 10 {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.Ledger.Write(s.Name, token); err != nil {
			return err
		}
	}
	return nil
}
