package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/node"
)

// announced makes leaders announce. The interval is so long that an observer learns nothing by polling.
func announced(cfg *election.Config) { cfg.Announce, cfg.Interval = true, time.Hour }

// announcedAndKept is announced, with KeepOnCancel.
func announcedAndKept(cfg *election.Config) {
	announced(cfg)
	cfg.KeepOnCancel = true
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

func nobody(s seen) bool { return errors.Is(s.err, election.ErrNoLeader) }

func leaderIs(term election.Term, value string) func(seen) bool {
	return func(s seen) bool {
		return s.err == nil && s.leader.Owner == term.Owner && s.leader.Token == term.Token && s.leader.Value == value
	}
}

func TestAnnouncementsWakeObservers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		var observers []<-chan seen
		for i := range 5 {
			observers = append(observers, watch(t, w.candidate(fmt.Sprint("observer", i), announced)))
		}
		all := func(wanted func(seen) bool) {
			t.Helper()
			for _, o := range observers {
				sees(t, o, soon, wanted)
			}
		}
		all(nobody)
		e := w.candidate("a", announced)
		a := start(t, e)
		all(leaderIs(a.leads().Term, ""))
		b := start(t, w.candidate("b", announced))
		time.Sleep(time.Minute)
		require.True(t, e.Resign())
		term := b.leads()
		all(leaderIs(term.Term, ""))
		require.ErrorIs(t, a.stop(), context.Canceled)

		require.ErrorIs(t, b.stop(), context.Canceled)
		all(nobody)
	})
}

// TestObserversFindADeadLeader: a dead leader announces nothing. Observers look when its time is over.
func TestObserversFindADeadLeader(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := start(t, w.candidate("a", announcedAndKept)) // its end is that of a dead leader
		term := a.leads()
		o := watch(t, w.candidate("observer", announced))
		sees(t, o, soon, leaderIs(term.Term, ""))
		time.Sleep(10 * time.Minute)
		require.Empty(t, o)
		_ = a.stop()
		sees(t, o, quorumlock.DefaultTTL+time.Second, nobody)
	})
}

// counted counts the questions for the holders of locks.
type counted struct {
	*node.Memory
	inspected *atomic.Int64
}

func (c counted) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	for _, op := range ops {
		if op.Kind == node.Inspect {
			c.inspected.Add(1)
		}
	}
	c.Memory.Do(ctx, ops, replies)
}

func TestObserversDoNotPollALivingLeader(t *testing.T) {
	for announce, rate := range map[bool]float64{true: 0.11, false: 1} {
		inVirtualTime(t, func(t *testing.T, w *world) {
			set := func(cfg *election.Config) { cfg.Announce = announce }
			start(t, w.candidate("a", set)).leads()
			var inspected atomic.Int64
			w.cfg.Nodes[0] = counted{w.nodes[0], &inspected}
			o := watch(t, w.candidate("observer", set))
			sees(t, o, soon, func(s seen) bool { return s.err == nil })
			time.Sleep(10 * time.Minute)
			require.InDelta(t, rate*600, inspected.Load(), rate*600/5, "questions in ten minutes")
		})
	}
}

// unsettable loses the answers to operations that set a latch, while refuses is set.
type unsettable struct {
	*node.Memory
	refuses *atomic.Bool
}

func (u unsettable) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	u.Memory.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Latch != nil && op.Latch.First && u.refuses.Load() {
			replies[i] = node.Reply{Err: &node.Error{Node: u.Name(), Op: op.Kind, Reason: node.ErrUnreachable}}
		}
	}
}

// TestObserversLookBeforeTheyListenAgain: an observer that cannot listen again yet looks at once after an announcement.
func TestObserversLookBeforeTheyListenAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a", announced)
		term := start(t, e).leads()
		var refuses atomic.Bool
		for i, nd := range w.nodes {
			w.cfg.Nodes[i] = unsettable{nd, &refuses}
		}
		o := watch(t, w.candidate("observer", announced))
		sees(t, o, soon, leaderIs(term.Term, ""))
		time.Sleep(time.Minute)
		refuses.Store(true)
		require.NoError(t, e.Proclaim(term.ctx, "x"))
		sees(t, o, soon, leaderIs(term.Term, "x"))
		refuses.Store(false)
	})
}

func TestProclaim(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a", announced)
		require.ErrorIs(t, e.Proclaim(t.Context(), "x"), election.ErrNotLeading)
		a := start(t, e)
		term := a.leads()
		o := watch(t, w.candidate("observer", announced))
		sees(t, o, soon, leaderIs(term.Term, ""))
		longest := strings.Repeat("x", election.MaxValueLength)
		for _, value := range []string{"http://10.0.0.3:8080", "a b  c", " ", longest, "last"} {
			require.NoError(t, e.Proclaim(term.ctx, value))
			sees(t, o, soon, leaderIs(term.Term, value))
			time.Sleep(time.Minute)
			leader, err := w.candidate("late", announced).Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, value, leader.Value, "an observer that comes late sees it too")
			require.Equal(t, "a", leader.Name)
		}
		w.pause(0, 1)
		require.NoError(t, e.Proclaim(term.ctx, "despite two nodes"))
		time.Sleep(time.Minute)
		w.resume(0, 1)
		w.pause(3, 4) // The other two got it from a renewal.
		time.Sleep(20 * time.Second)
		w.resume(3, 4)
		sees(t, o, time.Minute, leaderIs(term.Term, "despite two nodes"))

		b := start(t, w.candidate("b", announced))
		synctest.Wait()
		require.True(t, e.Resign())
		second := b.leads()
		sees(t, o, soon, leaderIs(second.Term, ""))
		require.ErrorIs(t, e.Proclaim(term.ctx, "x"), election.ErrNotLeading)
		_, _ = a.stop(), b.stop()
		sees(t, o, soon, nobody)
		time.Sleep(soon) // A release that a majority has confirmed may not have reached the others yet.
		for _, nd := range w.nodes {
			for _, key := range nd.Keys() {
				require.NotContains(t, key, "value", "the value ends with the term")
			}
		}
	})
}

// TestValuesChangeWithoutAGap: no observer sees the leader without a value, or an earlier value after a later one.
func TestValuesChangeWithoutAGap(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a", announced)
		term := start(t, e).leads()
		require.NoError(t, e.Proclaim(term.ctx, "00"))
		ctx, cancel := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		for range 4 {
			observer := w.candidate("observer", announced)
			polls.Go(func() {
				last := ""
				for ctx.Err() == nil {
					leader, err := observer.Leader(ctx)
					if ctx.Err() != nil {
						return
					}
					if assert.NoError(t, err) {
						assert.GreaterOrEqual(t, leader.Value, last)
						assert.NotEmpty(t, leader.Value)
						last = leader.Value
					}
					time.Sleep(50 * time.Microsecond)
				}
			})
		}
		for i := range 40 {
			require.NoError(t, e.Proclaim(term.ctx, fmt.Sprintf("%02d", i)))
			time.Sleep(time.Millisecond)
		}
		cancel()
		polls.Wait()
	})
}

// TestConcurrentProclaims: calls of Proclaim at the same time take turns, and one of the values stays.
func TestConcurrentProclaims(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a", announced)
		a := start(t, e)
		term := a.leads()
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() { assert.NoError(t, e.Proclaim(t.Context(), fmt.Sprint(i))) })
		}
		calls.Wait()
		leader, err := w.candidate("observer", announced).Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, term.Owner, leader.Owner)
		require.Len(t, leader.Value, 1)
		_ = a.stop()
	})
}

// TestValuesOfFormerTerms: the value of a former term is not shown as the next leader's, though both are of one client. A
// value that is still there does not delay the first one of the next leader.
func TestValuesOfFormerTerms(t *testing.T) {
	for proclaimed := range 3 {
		inVirtualTime(t, func(t *testing.T, w *world) {
			client := w.client()
			e := w.candidateOf(client, "a", announced)
			a := startStubborn(t, e, true) // it keeps its value after the loss
			former := a.leads()
			for range proclaimed {
				require.NoError(t, e.Proclaim(former.ctx, "of a"))
			}
			_, err := w.client().RedLock("office").ForceRelease(t.Context())
			require.NoError(t, err)
			f := w.candidateOf(client, "b", announced)
			b := start(t, f)
			term := b.leads()
			observer := w.candidate("observer", announced)
			leader, err := observer.Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, "b", leader.Name)
			require.Empty(t, leader.Value)
			atOnce, cancel := context.WithTimeout(term.ctx, soon)
			defer cancel()
			require.NoError(t, f.Proclaim(atOnce, "of b"))
			leader, err = observer.Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, "of b", leader.Value)
			require.NoError(t, f.Proclaim(atOnce, "of b again"), "the former leader has released its values")
			former.leave <- nil
			_, _ = a.stop(), b.stop()
		})
	}
}

// TestProclaimEnds: a Proclaim that cannot go on ends with its context, and with the term.
func TestProclaimEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e := w.candidate("a", announced)
		a := start(t, e)
		term := a.leads()
		other := w.client()
		for _, name := range []string{"office/value0", "office/value1"} {
			lease, err := other.RedLock(name).Acquire(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { _ = lease.Release(context.Background()) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, e.Proclaim(ctx, "x"), context.DeadlineExceeded)
		proclaimed := make(chan error)
		for range 2 {
			go func() { proclaimed <- e.Proclaim(term.ctx, "x") }()
		}
		synctest.Wait()
		require.True(t, e.Resign())
		for range 2 {
			require.ErrorIs(t, <-proclaimed, election.ErrResigned)
		}
		_ = a.stop()
	})
}

func TestInvalidValues(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e, quiet := w.candidate("a", announced), w.candidate("a")
		term := start(t, e).leads()
		for _, value := range []string{"", "a\nb", "\xff", strings.Repeat("x", election.MaxValueLength+1)} {
			require.ErrorIs(t, e.Proclaim(term.ctx, value), quorumlock.ErrInvalid, value)
		}
		require.EqualError(t, quiet.Proclaim(term.ctx, "x"), "quorumlock: Proclaim needs Config.Announce, of all candidates and observers")
		require.ErrorIs(t, e.Proclaim(nil, "x"), quorumlock.ErrInvalid) //nolint:staticcheck // the test needs a nil context
	})
}

// TestNamesTooLongForAnnouncements: a candidate that could announce nothing does not stand.
func TestNamesTooLongForAnnouncements(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		longest := quorumlock.MaxNameLength - len("/changes")
		done := func(context.Context, election.Term) error { return election.ErrDone }
		for length, want := range map[int]error{longest: nil, longest + 1: quorumlock.ErrInvalid} {
			e := election.New(w.client(), strings.Repeat("x", length), election.Config{Announce: true, Clock: w.clock, Logger: slog.New(slog.DiscardHandler)})
			require.ErrorIs(t, e.Run(t.Context(), done), want)
			_, err := e.Leader(t.Context())
			require.Equal(t, want != nil, errors.Is(err, quorumlock.ErrInvalid), err)
		}
	})
}

// TestKeepOnCancel: a candidate whose Run is cancelled leaves the lock to its TTL. One that is done releases it.
func TestKeepOnCancel(t *testing.T) {
	keeps := func(cfg *election.Config) { cfg.KeepOnCancel = true }
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := start(t, w.candidate("a", keeps))
		former := a.leads()
		b := start(t, w.candidate("b", keeps))
		synctest.Wait()
		began := w.clock.Now()
		require.ErrorIs(t, a.stop(), context.Canceled)
		require.Equal(t, began, w.clock.Now(), "Run does not wait")
		require.Error(t, former.ctx.Err())
		time.Sleep(6 * time.Second)
		b.waits()
		term := b.leads()
		require.Less(t, w.clock.Now()-began, quorumlock.DefaultTTL+time.Second)
		require.Greater(t, term.Token, former.Token)

		c := start(t, w.candidate("c", keeps))
		synctest.Wait()
		began = w.clock.Now()
		term.leave <- election.ErrDone
		third := c.leads()
		require.Less(t, w.clock.Now()-began, soon, "a candidate that is done releases the lock")
		third.leave <- nil
		require.NoError(t, <-b.done)
		c.leads()
		_ = c.stop()
	})
}

// An announcement that too few nodes confirm does not hold up Run, however long the interval is.
func TestRunDoesNotWaitLongForAnAnnouncement(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		a := start(t, w.candidate("a", announced, func(cfg *election.Config) { cfg.Interval = time.Hour }))
		a.leads()
		w.pause(0, 1, 2)
		began := time.Now()
		_ = a.stop()
		require.Less(t, time.Since(began), time.Minute)
		w.resume(0, 1, 2)
	})
}
