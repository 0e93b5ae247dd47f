package election_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type world struct{ *fleet.Fleet }

// inVirtualTime runs a test on five in-memory nodes, in virtual time.
func inVirtualTime(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) { test(t, &world{f}) })
}

// candidate is a candidate with a client of its own.
func (w *world) candidate(name string, changes ...func(*election.Config)) *election.Election {
	w.T.Helper()
	return w.candidateOf(w.Client(), name, changes...)
}

func (w *world) candidateOf(client *quorumlock.Client, name string, changes ...func(*election.Config)) *election.Election {
	cfg := election.Config{Name: name, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&cfg)
	}
	return election.New(client, "office", cfg)
}

// run is a candidate's Run on a goroutine of its own.
type run struct {
	t      *testing.T
	cancel context.CancelFunc
	// terms receives each term as it begins.
	terms chan led
	done  chan error
}

// led is a term as the lead function sees it.
type led struct {
	election.Term
	ctx   context.Context
	leave chan error
}

var (
	errWork    = errors.New("the work failed")
	errStopped = errors.New("stopped")
)

// start runs a candidate whose lead function returns when its context ends, or when leave gets an error.
func start(t *testing.T, e *election.Election) *run {
	t.Helper()
	return startStubborn(t, e, false)
}

// startStubborn runs a candidate whose lead function may ignore its context.
func startStubborn(t *testing.T, e *election.Election, stubborn bool) *run {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &run{t: t, cancel: func() { cancel(errStopped) }, terms: make(chan led, 100), done: make(chan error, 1)}
	go func() {
		r.done <- e.Run(ctx, func(ctx context.Context, term election.Term) error {
			l := led{term, ctx, make(chan error)}
			r.terms <- l
			over := ctx.Done()
			if stubborn {
				over = nil
			}
			select {
			case err := <-l.leave:
				return err
			case <-over:
				return nil
			}
		})
	}()
	t.Cleanup(r.cancel)
	return r
}

// stop ends the context of Run, and returns Run's result.
func (r *run) stop() error {
	r.cancel()
	return <-r.done
}

// leads waits for the next term.
func (r *run) leads() led {
	r.t.Helper()
	select {
	case l := <-r.terms:
		return l
	case <-time.After(time.Minute):
		r.t.Fatal("the candidate was not elected within a minute")
		return led{}
	}
}

// waits requires that the candidate is not elected.
func (r *run) waits() {
	r.t.Helper()
	synctest.Wait()
	require.Empty(r.t, r.terms, "the candidate must not lead")
}

// seen is one result of Watch.
type seen struct {
	leader election.Leader
	err    error
}

// watch runs Watch until the test ends.
func watch(t *testing.T, e *election.Election) <-chan seen {
	t.Helper()
	all, over := make(chan seen, 1000), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(over)
		for leader, err := range e.Watch(ctx) {
			all <- seen{leader, err}
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	return all
}

// soon is more than a few round trips to in-memory nodes take.
const soon = 20 * time.Millisecond

// sees requires a result within d of virtual time. Others may come before it.
func sees(t *testing.T, all <-chan seen, d time.Duration, wanted func(seen) bool) {
	t.Helper()
	late := time.After(d)
	for {
		select {
		case s := <-all:
			if wanted(s) {
				return
			}
		case <-late:
			t.Fatalf("Watch does not yield it within %v", d)
		}
	}
}
