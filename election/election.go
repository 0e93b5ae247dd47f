package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// Lead does the leader's work. ctx ends when the candidate can no longer rely on its lead, or must give it up: Lead
// must then return. ctx holds the lock, as [quorumlock.Lease.Context] does.
//
// A Lead that returns resigns, with or without an error; see [Election.Run] for what follows.
type Lead func(ctx context.Context, term Term) error

// Election is one candidate of an election. Run stands for election, and other methods observe the leader. A process
// that only observes makes an Election too, and does not call Run. An Election is safe for concurrent use.
type Election struct {
	cfg  Config
	name string
	lock *quorumlock.Lock
	// clock and jitter belong to the client.
	clock    clock.Clock
	jitter   func() float64
	problems []string
	running  atomic.Bool

	mu   sync.Mutex
	term *term // while the lead function runs
}

// New makes a candidate in the election with the given name, which is the name of its lock. The lock is a RedLock, unless
// Config.Lock says otherwise. New sends nothing. Every method that can fail reports an invalid name or Config, as a
// *quorumlock.InvalidError.
//
// The client may have other uses too. Several candidates of one client are independent candidates.
func New(client *quorumlock.Client, name string, cfg Config) *Election {
	cfg = cfg.withDefaults()
	e := &Election{cfg: cfg, name: name, problems: cfg.problems()}
	if client == nil {
		e.problems = append(e.problems, "the client is nil")
		return e
	}
	e.lock = client.RedLock(name).With(cfg.Lock)
	of := client.Config()
	e.clock, e.jitter = of.Clock, of.Jitter
	return e
}

// Run is New with the default Config, and its [Election.Run].
func Run(ctx context.Context, client *quorumlock.Client, name string, lead Lead) error {
	return New(client, name, Config{}).Run(ctx, lead)
}

// Leading returns the term of this candidate, if it leads now. It reads the clock, so the result is exact. It reports
// false while a lead function winds up.
func (e *Election) Leading() (Term, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.term.ctx.Err() != nil {
		return Term{}, false
	}
	return e.term.Term, true
}

// Healthy returns an [ErrOverdue] while a lead function continues although its context ended Config.Grace ago, and nil
// otherwise. It is for the liveness probe of a process: a candidate whose lead function hangs leads no more, and may keep
// others from leading. A restart solves that. Healthy asks no node, and is nil while no lead function runs.
func (e *Election) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || !e.term.overdue.Load() {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOverdue, context.Cause(e.term.ctx))
}

// Resign ends the context of the lead function, with ErrResigned as its cause, and reports whether this candidate
// led. The lock is released when the function has returned. Resign does not wait for that, so the function may call
// it too. The candidate stands again, at the end of the queue. To leave the election, end the context of Run.
func (e *Election) Resign() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.term.ctx.Err() != nil {
		return false
	}
	e.term.cancel(ErrResigned)
	return true
}

func (e *Election) check(ctx context.Context) error {
	problems := e.problems
	if ctx == nil {
		problems = append(slices.Clip(problems), "the context is nil")
	}
	if len(problems) > 0 {
		return invalid(problems...)
	}
	return nil
}

func invalid(problems ...string) error { return &quorumlock.InvalidError{Problems: problems} }

// Errors, and causes of the end of a term, for errors.Is. Errors of package quorumlock may come too.
var (
	// ErrDone is returned by lead functions: the candidate resigns and does not stand again, and Run returns nil.
	ErrDone = errors.New("election: done")
	// ErrResigned is the cause of the end of a term's context after Resign.
	ErrResigned = errors.New("election: resigned")
	// ErrRunning: Run was called while another Run of the same Election had not returned.
	ErrRunning = errors.New("election: already running: one Run at a time; make another Election for another candidate")
	// ErrNoLeader: no candidate holds the lock on enough nodes.
	ErrNoLeader = errors.New("election: no leader")
	// ErrOverdue: a lead function still runs after the end of its context. The error of Healthy also wraps the cause of
	// that end.
	ErrOverdue = errors.New("election: the lead function still runs after the end of its context")
	// ErrPanicked replaces the error of a lead function that did not return: it panicked, or ended its goroutine.
	ErrPanicked = errors.New("election: the lead function panicked, or called runtime.Goexit")
)
