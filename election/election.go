package election

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock"
)

// Lead is what a leader does. ctx ends when the lead may no longer be assumed, or is to be given
// up: Lead must then return. Its ctx holds the lock, as [quorumlock.Lease.Context] does.
//
// To return nil or an error is to resign; see [Election.Run] for what follows.
type Lead func(ctx context.Context, term Term) error

// Election is a candidate's part in an election: it stands, with Run, and it can look who leads.
// Who only looks makes one, too, and does not run it. It is safe for concurrent use.
type Election struct {
	cfg      Config
	name     string
	lock     *quorumlock.Lock
	problems []string
	running  atomic.Bool

	mu   sync.Mutex
	term *term // while the lead function runs
}

// New makes a candidate in the election with a name, which is that of a lock: a RedLock, unless
// Config.Lock says otherwise. It sends nothing. What is wrong with the name or the Config is
// reported by every method that can fail, as a *quorumlock.InvalidError.
//
// The client may be used for other things too. Several candidates of one client are
// candidates like any others.
func New(client *quorumlock.Client, name string, cfg Config) *Election {
	cfg = cfg.withDefaults()
	e := &Election{cfg: cfg, name: name, problems: cfg.problems()}
	if client == nil {
		e.problems = append(e.problems, "the client is nil")
		return e
	}
	e.lock = client.RedLock(name).With(cfg.Lock)
	return e
}

// Run is New with the default Config, and its [Election.Run].
func Run(ctx context.Context, client *quorumlock.Client, name string, lead Lead) error {
	return New(client, name, Config{}).Run(ctx, lead)
}

// Leading is the term of this candidate, if it leads now. It is exact: it looks at the clock.
// It is false also while a lead function winds up.
func (e *Election) Leading() (Term, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == nil || e.term.ctx.Err() != nil {
		return Term{}, false
	}
	return e.term.Term, true
}

// Resign ends the context of the lead function, with ErrResigned as its cause, and reports
// whether this candidate led. The lock is released when the function has returned; Resign
// does not wait for that, so the function may call it too. The candidate stands again, behind
// those who wait. To leave the election, end the context of Run.
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
		return &quorumlock.InvalidError{Problems: problems}
	}
	return nil
}
