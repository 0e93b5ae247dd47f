package election_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestOnlyOneCandidateLeads(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		a, b := start(t, w.candidate("a")), start(t, w.candidate("b"))
		first, second := a, b
		synctest.Wait()
		if len(a.terms) == 0 {
			first, second = b, a
		}
		term := first.leads()
		require.NotZero(t, term.Token)
		for range 60 {
			time.Sleep(time.Second)
			second.waits()
			require.NoError(t, term.ctx.Err())
		}
		require.ErrorIs(t, first.stop(), errStopped)
		require.ErrorIs(t, second.stop(), errStopped)
		synctest.Wait()
		require.Zero(t, w.Keys())
	})
}

// TestNextCandidateLeadsAtOnce: when a leader stops, its release wakes the next candidate at once.
func TestNextCandidateLeadsAtOnce(t *testing.T) {
	ways := map[string]func(e *election.Election, r *run, l led){
		"context ends":     func(_ *election.Election, r *run, _ led) { r.cancel() },
		"resigns":          func(e *election.Election, _ *run, _ led) { e.Resign() },
		"returns":          func(_ *election.Election, _ *run, l led) { l.leave <- nil },
		"returns an error": func(_ *election.Election, _ *run, l led) { l.leave <- errWork },
		"returns ErrDone":  func(_ *election.Election, _ *run, l led) { l.leave <- election.ErrDone },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				e := w.candidate("a")
				a := start(t, e)
				former := a.leads()
				b := start(t, w.candidate("b"))
				time.Sleep(5300 * time.Millisecond)
				b.waits()
				began := w.Clock.Now()
				end(e, a, former)
				next := b.leads()
				require.Less(t, w.Clock.Now()-began, 10*time.Millisecond)
				require.Error(t, former.ctx.Err(), "the context of the former leader has ended")
				require.Greater(t, next.Token, former.Token)
			})
		})
	}
}

func TestLossAndReelection(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var ends []election.EndedEvent
		a := start(t, w.candidate("a", func(cfg *election.Config) {
			cfg.Hooks.Ended = func(e election.EndedEvent) { ends = append(ends, e) }
		}))
		former := a.leads()
		w.Pause(0, 1, 2)
		<-former.ctx.Done()
		require.ErrorIs(t, context.Cause(former.ctx), quorumlock.ErrLost)
		synctest.Wait()
		require.Len(t, ends, 1)
		require.Equal(t, former.Term, ends[0].Term)
		require.ErrorIs(t, ends[0].Cause, quorumlock.ErrLost)
		require.NoError(t, ends[0].Err)
		require.Positive(t, ends[0].Held)
		time.Sleep(time.Minute)
		a.waits()
		w.Resume(0, 1, 2)
		next := a.leads()
		require.Greater(t, next.Token, former.Token)
		require.NotEqual(t, former.Owner, next.Owner)
		_ = a.stop()
	})
}

// TestSuspendedLeaderFindsItsContextEnded: the machine of a leader is suspended for longer than the TTL. When it resumes,
// its context has ended by the clock, before any timer or node tells it.
func TestSuspendedLeaderFindsItsContextEnded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		local := testkit.NewSkewed(w.Clock, 1)
		client := w.Client(func(cfg *quorumlock.Config) { cfg.Clock = local })
		e := w.candidateOf(client, "a")
		a := start(t, e)
		former := a.leads()
		synctest.Wait()
		local.Jump(quorumlock.DefaultTTL)
		_, leading := e.Leading()
		require.False(t, leading)
		require.Error(t, former.ctx.Err())
		require.ErrorIs(t, context.Cause(former.ctx), quorumlock.ErrLost)
		next := a.leads()
		require.Greater(t, next.Token, former.Token)
		_ = a.stop()
	})
}

// TestRunReturnsAtOnceAfterALoss: a term that was lost leaves nothing to release, so Run does not wait for silent nodes.
func TestRunReturnsAtOnceAfterALoss(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := startStubborn(t, w.candidate("a"), true)
		term := a.leads()
		w.Pause(0, 1, 2, 3, 4)
		<-term.ctx.Done()
		require.ErrorIs(t, context.Cause(term.ctx), quorumlock.ErrLost)
		a.cancel()
		began := w.Clock.Now()
		term.leave <- nil
		require.ErrorIs(t, <-a.done, errStopped)
		require.Equal(t, began, w.Clock.Now())
		w.Resume(0, 1, 2, 3, 4)
	})
}

// TestEndedIsToldBeforeTheRelease: what a former leader winds up in its hook does not overlap with the next term.
func TestEndedIsToldBeforeTheRelease(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var b *run
		told, overlaps := false, false
		a := start(t, w.candidate("a", func(cfg *election.Config) {
			cfg.Hooks.Ended = func(election.EndedEvent) {
				time.Sleep(time.Second)
				told, overlaps = true, len(b.terms) > 0
			}
		}))
		a.leads()
		b = start(t, w.candidate("b"))
		b.waits()
		require.ErrorIs(t, a.stop(), errStopped)
		require.True(t, told)
		require.False(t, overlaps, "another candidate leads before the hook has returned")
		b.leads()
	})
}

// TestResignationIsNoFailure: a lead function mostly returns an error when its context has ended. The pauses do not grow by
// that.
func TestResignationIsNoFailure(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a")
		terms, ctx := make(chan time.Duration), t.Context()
		go func() {
			_ = e.Run(ctx, func(ctx context.Context, _ election.Term) error {
				terms <- w.Clock.Now()
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		last := <-terms
		for range 10 {
			synctest.Wait()
			require.True(t, e.Resign())
			next := <-terms
			require.LessOrEqual(t, next-last, time.Second+soon)
			last = next
		}
	})
}

// TestKeepOnCancel: a candidate whose Run is cancelled leaves the lock to its TTL. One that is done, or resigns, releases it.
func TestKeepOnCancel(t *testing.T) {
	keeps := func(cfg *election.Config) { cfg.KeepOnCancel = true }
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := start(t, w.candidate("a", keeps))
		former := a.leads()
		b := start(t, w.candidate("b", keeps))
		synctest.Wait()
		began := w.Clock.Now()
		require.ErrorIs(t, a.stop(), errStopped)
		require.Equal(t, began, w.Clock.Now(), "Run does not wait")
		require.Error(t, former.ctx.Err())
		time.Sleep(6 * time.Second)
		b.waits()
		term := b.leads()
		require.Less(t, w.Clock.Now()-began, quorumlock.DefaultTTL+time.Second)
		require.Greater(t, term.Token, former.Token)

		c := start(t, w.candidate("c", keeps))
		synctest.Wait()
		began = w.Clock.Now()
		term.leave <- election.ErrDone
		third := c.leads()
		require.Less(t, w.Clock.Now()-began, soon, "a candidate that is done releases the lock")
		third.leave <- nil
		require.NoError(t, <-b.done)
		c.leads()
		_ = c.stop()

		d := startStubborn(t, w.candidate("d", keeps), true)
		fourth := d.leads()
		resigns := w.candidate("e", keeps)
		e := start(t, resigns)
		synctest.Wait()
		began = w.Clock.Now()
		d.cancel()
		fourth.leave <- election.ErrDone
		e.leads()
		require.Less(t, w.Clock.Now()-began, soon, "one that was cancelled, and is done, releases it too")

		f := start(t, w.candidate("f", keeps))
		synctest.Wait()
		began = w.Clock.Now()
		require.True(t, resigns.Resign())
		f.leads()
		require.Less(t, w.Clock.Now()-began, soon, "one that resigns releases it")
		_, _ = e.stop(), f.stop()
	})
}

// TestLeaderThatIgnoresItsContext: the lead function goes on after its context has ended. Except after a loss, the lock is
// held until the function has returned.
func TestLeaderThatIgnoresItsContext(t *testing.T) {
	ends := map[string]struct {
		stop  func(w *world, e *election.Election, r *run)
		cause error
		lost  bool
	}{
		"resigns":             {func(_ *world, e *election.Election, _ *run) { e.Resign() }, election.ErrResigned, false},
		"context of Run ends": {func(_ *world, _ *election.Election, r *run) { r.cancel() }, errStopped, false},
		"lease is lost": {func(w *world, _ *election.Election, _ *run) {
			w.Pause(0, 1, 2)
			time.Sleep(15 * time.Second)
			w.Resume(0, 1, 2)
		}, quorumlock.ErrLost, true},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				overdue := make(chan election.OverdueEvent, 10)
				e := w.candidate("a", func(cfg *election.Config) {
					cfg.Hooks.Overdue = func(e election.OverdueEvent) { overdue <- e }
				})
				a := startStubborn(t, e, true)
				former := a.leads()
				b := start(t, w.candidate("b"))
				synctest.Wait()
				require.NoError(t, e.Healthy())
				end.stop(w, e, a)
				synctest.Wait()
				require.ErrorIs(t, context.Cause(former.ctx), end.cause)
				_, leads := e.Leading()
				require.False(t, leads)
				require.False(t, e.Resign(), "the term has ended already")

				time.Sleep(2 * time.Second)
				late := <-overdue
				require.Equal(t, former.Term, late.Term)
				require.ErrorIs(t, late.Cause, end.cause)
				require.ErrorIs(t, e.Healthy(), election.ErrOverdue)
				require.ErrorIs(t, e.Healthy(), end.cause)
				time.Sleep(time.Minute)
				require.Empty(t, overdue, "Overdue is called once")
				a.waits()
				if end.lost {
					require.Greater(t, b.leads().Token, former.Token, "after a loss, the next candidate leads at once")
				} else {
					b.waits()
				}
				former.leave <- nil
				synctest.Wait()
				require.NoError(t, e.Healthy())
				if !end.lost {
					b.leads()
				}
				time.Sleep(time.Minute)
				a.waits()
			})
		})
	}
}

// TestLeaderThatStopsInTimeIsNotOverdue: Overdue is not called for a lead function that returns within the grace time.
func TestLeaderThatStopsInTimeIsNotOverdue(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a", func(cfg *election.Config) {
			cfg.Hooks.Overdue = func(election.OverdueEvent) { t.Error("Overdue was called for a function that returned in time") }
		})
		a := startStubborn(t, e, true)
		for range 3 {
			term := a.leads()
			require.True(t, e.Resign())
			time.Sleep(time.Second - time.Millisecond)
			require.NoError(t, e.Healthy())
			term.leave <- nil
		}
	})
}

func TestRestsBetweenTerms(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := start(t, w.candidate("a"))
		rest := func(leave error) time.Duration {
			a.leads().leave <- leave
			began := w.Clock.Now()
			a.terms <- a.leads() // Put the term back for the next call.
			return w.Clock.Now() - began
		}
		for range 3 {
			require.InDelta(t, 0.75, rest(nil).Seconds(), 0.26, "the shortest rest has jitter from half of it to all of it")
		}
		for _, span := range []float64{1, 2, 4, 8, 16, 30, 30} {
			require.InDelta(t, span*3/4, rest(errWork).Seconds(), span/4+0.01)
		}
		require.InDelta(t, 0.75, rest(nil).Seconds(), 0.26, "a term without an error resets the rest")
		rest(errWork)
		rest(errWork)
		term := a.leads()
		time.Sleep(time.Hour)
		a.terms <- term
		require.InDelta(t, 0.75, rest(errWork).Seconds(), 0.26, "a long term resets the rest")
	})
}

func TestPanicReleasesTheLock(t *testing.T) {
	leave := map[string]func(){
		"panic":  func() { panic("oh") },
		"goexit": runtime.Goexit,
	}
	for name, leave := range leave {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				var ended election.EndedEvent
				e := w.candidate("a", func(cfg *election.Config) {
					cfg.Hooks.Ended = func(e election.EndedEvent) { ended = e }
				})
				var recovered any
				var gone sync.WaitGroup
				gone.Go(func() {
					defer func() { recovered = recover() }()
					_ = e.Run(t.Context(), func(context.Context, election.Term) error { leave(); return nil })
				})
				gone.Wait()
				if name == "panic" {
					require.Equal(t, "oh", recovered, "Run does not recover the panic")
				}
				require.ErrorIs(t, ended.Err, election.ErrPanicked)
				synctest.Wait()
				require.Zero(t, w.Keys())
				again := start(t, e)
				again.leads()
				_ = again.stop()
			})
		})
	}
}

func TestClose(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		client := w.Client()
		a := start(t, w.candidateOf(client, "a"))
		waiting := start(t, w.candidateOf(client, "b"))
		synctest.Wait()
		leader := a
		if len(a.terms) == 0 {
			leader = waiting
		}
		term := leader.leads()
		require.NoError(t, client.Close(t.Context()))
		require.ErrorIs(t, context.Cause(term.ctx), quorumlock.ErrClosed)
		require.ErrorIs(t, <-a.done, quorumlock.ErrClosed)
		require.ErrorIs(t, <-waiting.done, quorumlock.ErrClosed)
		require.Zero(t, w.Keys())
	})
}

// TestCandidatesOfOneClient: two candidates of one client are independent. A term is never handed over within the client,
// so each term has its own owner.
func TestCandidatesOfOneClient(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		client := w.Client()
		a := start(t, w.candidateOf(client, "a"))
		former := a.leads()
		b := start(t, w.candidateOf(client, "b"))
		synctest.Wait()
		former.leave <- nil
		next := b.leads()
		require.NotEqual(t, former.Owner, next.Owner)
		require.Greater(t, next.Token, former.Token)
	})
}

func TestHoldLimitEndsATerm(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := start(t, w.candidate("a", func(cfg *election.Config) { cfg.Lock.MaxHold = time.Minute }))
		term := a.leads()
		<-term.ctx.Done()
		require.ErrorIs(t, context.Cause(term.ctx), quorumlock.ErrHoldLimit)
		require.Greater(t, a.leads().Token, term.Token)
	})
}

// TestRefusalIsReported: nodes refuse a candidate. It calls Failed, rests, and tries again.
func TestRefusalIsReported(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		failed := make(chan error, 100)
		other := fleet.MustAcquire(t, w.Client().RedLock("other")) // so its limits are in use
		client := w.Client(func(cfg *quorumlock.Config) { cfg.MaxTTL = 20 * time.Second })
		a := start(t, w.candidateOf(client, "a", func(cfg *election.Config) {
			cfg.Hooks.Failed = func(err error) { failed <- err }
		}))
		time.Sleep(5 * time.Minute)
		require.ErrorIs(t, <-failed, quorumlock.ErrNoQuorum)
		require.InDelta(t, 13, len(failed), 6, "rests grow")
		a.waits()
		require.ErrorIs(t, a.stop(), errStopped)
		require.NoError(t, other.Release(t.Context()))
	})
}

func TestRunErrors(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a")
		nothing := func(context.Context, election.Term) error { return nil }
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		require.ErrorIs(t, e.Run(ctx, nothing), gone)
		require.ErrorIs(t, e.Run(t.Context(), nil), quorumlock.ErrInvalid)
		require.ErrorIs(t, e.Run(nil, nothing), quorumlock.ErrInvalid) //nolint:staticcheck // the test needs a nil context
		require.ErrorIs(t, election.New(nil, "x", election.Config{}).Run(t.Context(), nothing), quorumlock.ErrInvalid)
		require.ErrorIs(t, election.Run(t.Context(), w.Client(), "", nothing), quorumlock.ErrInvalid)

		a := start(t, e)
		term := a.leads()
		require.ErrorIs(t, e.Run(t.Context(), nothing), election.ErrRunning)
		require.ErrorIs(t, e.Run(term.ctx, nothing), quorumlock.ErrInvalid, "a candidate that holds the lock would wait for itself")
		term.leave <- errors.Join(errWork, election.ErrDone)
		require.NoError(t, <-a.done)
		again := start(t, e)
		again.leads()
		_ = again.stop()
	})
}

func TestInvalidConfigs(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		bad := map[string]func(*election.Config){
			"Fixed":    func(c *election.Config) { c.Lock.Fixed = true },
			"RestMin":  func(c *election.Config) { c.RestMin = -1 },
			"RestMax":  func(c *election.Config) { c.RestMax = -1 },
			"over":     func(c *election.Config) { c.RestMin, c.RestMax = 2, 1 },
			"Grace":    func(c *election.Config) { c.Grace = -1 },
			"Interval": func(c *election.Config) { c.Interval = -1 },
			"TTL":      func(c *election.Config) { c.Lock.TTL = time.Hour },
			"majority": func(c *election.Config) { c.Lock.Rule = quorum.AtLeast(2) },
		}
		for word, change := range bad {
			e := w.candidate("a", change)
			_, err := e.Leader(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrInvalid, word)
			require.ErrorContains(t, err, word)
			for _, err := range e.Watch(t.Context()) {
				require.ErrorIs(t, err, quorumlock.ErrInvalid, word)
			}
		}
	})
}

// TestManyCandidatesOnUnreliableNodes: nodes hang at times, and leaders return with and without errors. No two candidates lead
// at once, tokens grow, and each candidate leads at some time.
func TestManyCandidatesOnUnreliableNodes(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var leading context.Context
		var last uint64
		terms := map[string]int{}
		ctx, cancel := context.WithCancel(t.Context())
		var candidates sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			e := w.candidate(name)
			candidates.Go(func() {
				err := e.Run(ctx, func(ctx context.Context, term election.Term) error {
					mu.Lock()
					if leading != nil && leading.Err() == nil {
						t.Error("two candidates lead at once")
					}
					if term.Token <= last {
						t.Errorf("token %d after %d", term.Token, last)
					}
					leading, last = ctx, term.Token
					terms[name]++
					mu.Unlock()
					work, stop := context.WithTimeout(ctx, time.Duration(term.Token%7)*time.Second)
					defer stop()
					<-work.Done()
					return []error{nil, errWork}[term.Token%2]
				})
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		for i := range 40 {
			w.Pause(i%5, (i+1)%5)
			if i%3 == 0 {
				w.Pause((i + 2) % 5)
			}
			time.Sleep(time.Duration(5+i%11) * time.Second)
			w.Resume(0, 1, 2, 3, 4)
			time.Sleep(3 * time.Second)
		}
		cancel()
		candidates.Wait()
		require.Len(t, terms, 4, "each candidate leads at some time: %v", terms)
		t.Log(terms)
	})
}
