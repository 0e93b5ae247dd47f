// Package latch tests latches.
package latch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// counts counts down once for each of the ids.
func counts(t *testing.T, l *quorumlock.Latch, ids ...string) {
	t.Helper()
	for _, id := range ids {
		require.NoError(t, l.CountDown(t.Context(), id))
	}
}

// left requires that the latch still needs this many count-downs.
func left(t *testing.T, l *quorumlock.Latch, want int) {
	t.Helper()
	got, err := l.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// awaiting waits for a latch in the background. The channel delivers the result.
func awaiting(ctx context.Context, l *quorumlock.Latch) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Await(ctx) }()
	return done
}

// waits requires that a waiter still waits.
func waits(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.Fail(t, "the waiter has returned", "%v", err)
	default:
	}
}

func TestLatch(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			fleet.InVirtualTime(t, n, func(t *testing.T, f *fleet.Fleet) {
				one, two := f.Client().Latch("a"), f.Client().Latch("a")
				require.Equal(t, "a", one.Name())
				require.NoError(t, one.Set(t.Context(), 3))
				left(t, two, 3)
				done := awaiting(t.Context(), two)
				counts(t, two, "x", "x", "y", "x")
				left(t, one, 1)
				waits(t, done)
				counts(t, one, "z")
				require.NoError(t, <-done)
				left(t, two, 0)
				require.NoError(t, one.Await(t.Context()))
				counts(t, one, "more")
				left(t, two, 0)

				require.NoError(t, two.Delete(t.Context()))
				_, err := one.Count(t.Context())
				require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
				require.NoError(t, one.Set(t.Context(), 1))
				left(t, two, 1)
				counts(t, two, "x")
				require.NoError(t, one.Await(t.Context()))
				f.RequireNoKeys()
			})
		})
	}
}

func TestLatchNotSet(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.ErrorIs(t, l.CountDown(t.Context(), "x"), quorumlock.ErrLatchNotSet)
		require.EqualError(t, l.CountDown(t.Context(), "x"), `quorumlock: latch not set: "a"`)
		require.ErrorIs(t, l.Await(t.Context()), quorumlock.ErrLatchNotSet)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
		require.NoError(t, l.Delete(t.Context()))
		require.NoError(t, l.Set(t.Context(), 1))
		left(t, l, 1)
	})
}

func TestLatchIsSetOnce(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one, two := f.Client().Latch("a"), f.Client().Latch("a")
		require.NoError(t, one.Set(t.Context(), 3))
		counts(t, one, "x")
		require.NoError(t, two.Set(t.Context(), 3), "the latch is already set to 3")
		left(t, two, 2)
		err := two.Set(t.Context(), 4)
		require.ErrorIs(t, err, quorumlock.ErrLatchSet)
		require.EqualError(t, err, `quorumlock: latch "a" is set to 3`)
		left(t, two, 2)
		require.NoError(t, one.Delete(t.Context()))
		require.NoError(t, two.Set(t.Context(), 4))
		require.ErrorIs(t, one.Set(t.Context(), 3), quorumlock.ErrLatchSet)
	})
}

// split sets a latch on some nodes only, like a client that dies during Set.
func split(f *fleet.Fleet, name string, n int, nodes ...int) {
	f.T.Helper()
	for _, i := range nodes {
		token := uint64(f.Clock.Wall().UnixMicro())
		f.Do(i, wire.Granted, wire.Op{
			Kind: wire.Latch, Names: []string{name}, TTL: time.Hour, Token: token, Latch: &wire.LatchOp{Count: n, First: true, Since: token},
		})
	}
}

// A Set was interrupted after it had reached some nodes. Another Set completes it, or wins with another count, or fails
// if the counts cannot agree.
func TestUnfinishedSet(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		split(f, "same", 3, 0)
		l := f.Client().Latch("same")
		f.Stop(1)
		require.NoError(t, l.Set(t.Context(), 3), "any client can complete the Set")
		counts(t, l, "x")
		left(t, l, 2)
		f.Start(1)

		split(f, "other", 3, 0)
		l = f.Client().Latch("other")
		require.NoError(t, l.Set(t.Context(), 4), "a majority has the new count")
		fleet.Settle()
		f.Stop(1)
		left(t, l, 4) // The first node has learned the new count.
		f.Start(1)

		split(f, "both", 3, 0)
		split(f, "both", 4, 1)
		l = f.Client().Latch("both")
		f.Stop(2)
		var set *quorumlock.LatchSetError
		require.ErrorAs(t, l.Set(t.Context(), 3), &set)
		require.Equal(t, quorumlock.LatchSetError{Name: "both", Count: 4}, *set)
		require.ErrorIs(t, l.CountDown(t.Context(), "x"), quorumlock.ErrLatchSet)
		_, err := l.Count(t.Context())
		require.ErrorContains(t, err, "different numbers")
		require.NoError(t, l.Delete(t.Context()))
		require.NoError(t, l.Set(t.Context(), 3))
		left(t, l, 3)
	})
}

// The last count-down wakes all waiters at once. They need not poll.
func TestLastCountDownWakesWaiters(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one := f.Client().Latch("a")
		require.NoError(t, one.Set(t.Context(), 2))
		clients := []*quorumlock.Client{f.Client(), f.Client(), f.Client()}
		var waiting []<-chan error
		for i := range 30 {
			waiting = append(waiting, awaiting(t.Context(), clients[i%3].Latch("a")))
		}
		counts(t, one, "x")
		time.Sleep(300 * time.Millisecond)
		for _, done := range waiting {
			waits(t, done)
		}
		took := f.Elapsed(func() {
			counts(t, one, "y")
			for _, done := range waiting {
				require.NoError(t, <-done)
			}
		})
		require.LessOrEqual(t, took, 30*time.Millisecond)
	})
}

// latchEvents makes a client with a hook for latch events. The function last returns the latest
// event.
func latchEvents(f *fleet.Fleet) (c *quorumlock.Client, last func() quorumlock.LatchEvent) {
	events := make(chan quorumlock.LatchEvent, 1)
	c = f.Client(func(cfg *quorumlock.Config) {
		cfg.Hooks.Latch = func(e quorumlock.LatchEvent) { events <- e }
	})
	return c, func() quorumlock.LatchEvent { return <-events }
}

func TestLatchCallsTakeOneRoundTrip(t *testing.T) {
	for _, down := range []int{0, 1} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			f.Stop(fleet.FirstNodes(down)...)
			c, last := latchEvents(f)
			l := c.Latch("a")
			for _, tc := range []struct {
				op   quorumlock.Operation
				id   string
				call func() error
			}{
				{"set latch", "", func() error { return l.Set(t.Context(), 2) }},
				{"set latch", "", func() error { return l.Set(t.Context(), 2) }},
				{"count down", "x", func() error { return l.CountDown(t.Context(), "x") }},
				{"count down", "y", func() error { return l.CountDown(t.Context(), "y") }},
				{"count latch", "", func() error { _, err := l.Count(t.Context()); return err }},
				{"await latch", "", func() error { return l.Await(t.Context()) }},
				{"delete latch", "", func() error { return l.Delete(t.Context()) }},
				{"set latch", "", func() error { return l.Set(t.Context(), 1) }},
			} {
				require.NoError(t, tc.call())
				e := last()
				e.Took = 0
				require.Equal(t, quorumlock.LatchEvent{Op: tc.op, Name: "a", ID: tc.id, Rounds: 1}, e)
			}
			require.ErrorIs(t, l.Set(t.Context(), 2), quorumlock.ErrLatchSet)
			e := last()
			require.Equal(t, 1, e.Rounds)
			require.ErrorIs(t, e.Err, quorumlock.ErrLatchSet)
		})
	}
}

// A minority of nodes is unreachable or hangs. After that, these nodes learn the count-downs that they missed.
func TestLatchSurvivesLossOfAMinority(t *testing.T) {
	for name, away := range map[string][2]func(*fleet.Fleet, ...int){
		"unreachable": {(*fleet.Fleet).Stop, (*fleet.Fleet).Start},
		"hung":        {(*fleet.Fleet).Pause, (*fleet.Fleet).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				leave, back := away[0], away[1]
				l := f.Client().Latch("a")
				leave(f, 0)
				require.NoError(t, l.Set(t.Context(), 4))
				done := awaiting(t.Context(), f.Client().Latch("a"))
				counts(t, l, "1")
				back(f, 0)
				leave(f, 1)
				time.Sleep(3 * time.Second) // Wait until the client asks the node again.
				counts(t, l, "2")
				left(t, l, 2)
				back(f, 1)
				leave(f, 2)
				time.Sleep(3 * time.Second)
				left(t, l, 2)
				counts(t, l, "3")
				waits(t, done)
				counts(t, l, "4")
				require.NoError(t, <-done)
				back(f, 2)
				leave(f, 0)
				time.Sleep(3 * time.Second)
				left(t, l, 0)
				back(f, 0)
			})
		})
	}
}

func TestLatchNeedsAQuorum(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		done := awaiting(t.Context(), l)
		waits(t, done)
		f.Stop(0, 1)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		for _, call := range []func(context.Context) error{
			l.Await, l.Delete,
			func(ctx context.Context) error { return l.Set(ctx, 2) },
			func(ctx context.Context) error { return l.CountDown(ctx, "x") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := call(ctx)
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, node.ErrUnreachable)
			cancel()
		}
		waits(t, done)
		f.Start(0, 1)
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, <-done, quorumlock.ErrLatchDeleted, "the Delete that timed out had reached a node")
	})
}

// Too few nodes answer a call. The call succeeds when the nodes are back.
func TestLatchCallsOutlastAnOutage(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		f.Stop(0, 1)
		set := make(chan error, 1)
		go func() { set <- l.Set(t.Context(), 1) }()
		waits(t, set)
		time.Sleep(10 * time.Second)
		f.Start(0, 1)
		require.NoError(t, <-set)
		done := awaiting(t.Context(), l)
		f.Stop(1, 2)
		counting := make(chan error, 1)
		go func() { counting <- l.CountDown(t.Context(), "x") }()
		time.Sleep(10 * time.Second)
		waits(t, counting)
		f.Start(1, 2)
		require.NoError(t, <-counting)
		require.NoError(t, <-done)
	})
}

// TestNextLatchThatIsDoneEndsNoEarlierWait: a waiter that gets no messages looks only after the next latch is done.
func TestNextLatchThatIsDoneEndsNoEarlierWait(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		waiter, spies := f.SpiedClient()
		for _, s := range spies {
			s.Set(func(s *fleet.Spy) { s.Message = func(wire.Message) bool { return false } })
		}
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		done := awaiting(t.Context(), waiter.Latch("a"))
		time.Sleep(5 * time.Second)
		waits(t, done)
		require.NoError(t, l.Delete(t.Context()))
		require.NoError(t, l.Set(t.Context(), 1))
		counts(t, l, "x")
		require.ErrorIs(t, <-done, quorumlock.ErrLatchDeleted)
	})
}

func TestDeleteEndsWaits(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		one, two := f.Client().Latch("a"), f.Client().Latch("a")
		require.NoError(t, one.Set(t.Context(), 1))
		done := awaiting(t.Context(), two)
		time.Sleep(100 * time.Millisecond)
		waits(t, done)
		took := f.Elapsed(func() {
			require.NoError(t, one.Delete(t.Context()))
			require.Error(t, <-done)
		})
		require.LessOrEqual(t, took, 30*time.Millisecond)

		require.NoError(t, one.Set(t.Context(), 2))
		done = awaiting(t.Context(), two)
		waits(t, done)
		counts(t, one, "x")
		require.NoError(t, one.Delete(t.Context()))
		require.NoError(t, one.Set(t.Context(), 1))
		require.ErrorIs(t, <-done, quorumlock.ErrLatchDeleted, "the latch of the waiter was deleted, and a new one was set")
		left(t, one, 1)
	})
}

// Each node is full with other ids than the next one. A full node takes no more, and needs none: the latch is done.
func TestFullNodesWithDifferentIDs(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		fleet.Settle()
		for i, id := range []string{"x", "y", "z"} {
			f.Stop(i)
			counts(t, l, id)
			f.Start(i)
			time.Sleep(2 * time.Second)
		}
		left(t, l, 0)
		require.NoError(t, f.Client().Latch("a").Await(t.Context()))
		for i := range f.Nodes {
			f.Stop(i)
			counts(t, l, "more", "x")
			left(t, l, 0)
			f.Start(i)
			time.Sleep(2 * time.Second)
		}
	})
}

// Each node lacks a third of the ids of a latch of the largest size, and one has lost its memory. The waiters combine
// the ids, and restore the node.
func TestLatchOfTheLargestSize(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), wire.MaxLatchCount))
		fleet.Settle()
		done := awaiting(t.Context(), f.Client().Latch("a"))
		const part = wire.MaxLatchCount / 3
		for i := range f.Nodes {
			f.Stop(i)
			for id := range part {
				counts(t, l, fmt.Sprint(i*part+id))
			}
			f.Start(i)
			time.Sleep(5 * time.Second)
		}
		left(t, l, wire.MaxLatchCount-3*part)
		f.Nodes[0].Flush()
		time.Sleep(2 * time.Second)
		waits(t, done)
		f.Stop(1)
		counts(t, l, "last")
		require.NoError(t, <-done)
		f.Start(1)
	})
}

// A node that missed a Delete must not bring back count-downs from before it.
func TestNodeThatMissedDeleteRevivesNoCountDowns(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		counts(t, l, "x", "y")
		fleet.Settle()
		f.Stop(2)
		require.NoError(t, l.Delete(t.Context()))
		f.Start(2)
		f.Stop(0)
		time.Sleep(3 * time.Second)
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
		require.NoError(t, l.Set(t.Context(), 2))
		left(t, l, 2)
		counts(t, l, "z")
		f.Start(0)
		f.Stop(1)
		time.Sleep(3 * time.Second)
		left(t, l, 1)
	})
}

// countOn returns the number to which a latch is set on one node.
func countOn(f *fleet.Fleet, i int, name string) int {
	f.T.Helper()
	reply := make([]wire.Reply, 1)
	f.Nodes[i].Do(f.T.Context(), []wire.Op{{
		Kind: wire.Latch, Names: []string{name}, TTL: time.Hour, Token: uint64(f.Clock.Wall().UnixMicro()), Limits: f.Limits,
		Latch: &wire.LatchOp{},
	}}, reply)
	require.NoError(f.T, reply[0].Err)
	return reply[0].Latch.Count
}

// A deletion is confirmed while a node is away, or has seen a later token. The client tells this node of the deletion as
// soon as it can. Otherwise the node would keep the latch for a day.
func TestDeletionReachesNodesThatMissedIt(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		for _, hang := range []bool{false, true} {
			require.NoError(t, l.Set(t.Context(), 2))
			fleet.Settle()
			if hang {
				f.Pause(2)
			} else {
				f.Stop(2)
			}
			require.NoError(t, l.Delete(t.Context()))
			time.Sleep(30 * time.Second)
			f.Resume(2)
			f.Start(2)
			time.Sleep(5 * time.Second)
			require.Zero(t, countOn(f, 2, "a"), "hang: %v", hang)
			time.Sleep(time.Millisecond)
		}

		later := f.Client()
		split(f, "a", 2, 0, 1)
		time.Sleep(time.Millisecond)
		ahead := uint64(f.Clock.Wall().Add(500 * time.Millisecond).UnixMicro())
		f.Do(2, wire.Granted, wire.Op{
			Kind: wire.Latch, Names: []string{"a"}, TTL: time.Hour, Token: ahead, Latch: &wire.LatchOp{Count: 2, First: true, Since: ahead},
		})
		require.NoError(t, later.Latch("a").Delete(t.Context()))
		fleet.Settle()
		require.Zero(t, countOn(f, 2, "a"))
	})
}

// A node learns of a deletion so late that the other nodes have forgotten it, and the latch is set again. The deletion must
// not reach the new latch.
func TestDeletionThatNodesHaveForgottenIsNotPassedOn(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		deleter, wires := f.SpiedClient()
		of := func(c *quorumlock.Client) *quorumlock.Latch {
			return c.Latch("a").With(quorumlock.LatchOptions{TTL: 10 * time.Second})
		}
		require.NoError(t, of(deleter).Set(t.Context(), 2))
		fleet.Settle()
		wires[2].Severed.Store(true)
		require.NoError(t, of(deleter).Delete(t.Context()))
		time.Sleep(2 * 10 * time.Second)
		f.RequireNoKeys()

		next := of(f.Client())
		require.NoError(t, next.Set(t.Context(), 2))
		counts(t, next, "x")
		wires[2].Severed.Store(false)
		time.Sleep(10 * time.Second / 2)
		left(t, next, 1)
	})
}

// A Delete reaches one node, and retries on the others. Meanwhile the latch is set again. The retries must not delete the
// new latch.
func TestRetriedDeleteSparesNewLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		deleter, wires := f.SpiedClient()
		far := func(away bool) {
			wires[1].Severed.Store(away)
			wires[2].Severed.Store(away)
		}
		far(true)
		time.Sleep(time.Millisecond) // Each operation needs a larger token than the one before.
		deleted := make(chan error, 1)
		go func() { deleted <- deleter.Latch("a").Delete(t.Context()) }()
		fleet.Settle()
		time.Sleep(time.Millisecond)
		f.Stop(2)
		require.NoError(t, l.Set(t.Context(), 4), "Set learns of the Delete from the first node, and tells the second one")
		counts(t, l, "x")
		time.Sleep(time.Second)
		waits(t, deleted)
		far(false)
		require.NoError(t, <-deleted)
		left(t, l, 3)
	})
}

// The nodes that confirm a Delete need not be reachable at the same time.
func TestDeleteIsConfirmedNodeByNode(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		deleter, wires := f.SpiedClient()
		require.NoError(t, f.Client().Latch("a").Set(t.Context(), 3))
		time.Sleep(time.Millisecond) // Each operation needs a larger token than the one before.
		wires[1].Severed.Store(true)
		wires[2].Severed.Store(true)
		deleted := make(chan error, 1)
		go func() { deleted <- deleter.Latch("a").Delete(t.Context()) }()
		waits(t, deleted)
		wires[0].Severed.Store(true)
		time.Sleep(time.Second)
		waits(t, deleted)
		wires[1].Severed.Store(false)
		require.NoError(t, <-deleted)
	})
}

// A call from before a Delete has no effect when it arrives after it. This holds even if the caller's clock is ahead of
// the clock of the client that deleted the latch.
func TestLateCallWithFastClockAfterDeleteIsIgnored(t *testing.T) {
	const skew = 900 * time.Millisecond
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 2))
		ahead := testkit.NewSkewed(f.Clock, 1)
		ahead.StepWall(skew)
		arrives := make(chan struct{})
		late := f.Client(func(cfg *quorumlock.Config) {
			cfg.Clock = ahead
			cfg.NodeTimeoutMax = 3 * time.Second
			cfg.NodeTimeoutMin = cfg.NodeTimeoutMax
			cfg.Nodes[2] = &fleet.Spy{Node: f.Nodes[2], Before: func([]wire.Op) { <-arrives }}
		}).Latch("a")
		require.Less(t, skew, f.Limits.MaxClockSkew)
		counts(t, late, "x")
		time.Sleep(10 * time.Millisecond)
		f.Stop(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.Error(t, late.Set(ctx, 2))
		f.Start(0)
		require.NoError(t, l.Delete(t.Context()))
		fleet.Settle()
		close(arrives)
		fleet.Settle()
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
		require.NoError(t, l.Set(t.Context(), 2))
		left(t, l, 2)
		counts(t, late, "x")
		left(t, l, 1)
	})
}

// CountDown has returned, and one node answers it later. The latch was deleted and set again in between. The late answer
// must not make the count-down count on the new latch.
func TestCountDownHasNoEffectAfterReturn(t *testing.T) {
	for name, waiting := range map[string]bool{"success": false, "context ended": true} {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				l := f.Client().Latch("a")
				require.NoError(t, l.Set(t.Context(), 2))
				answers := make(chan struct{})
				late := f.Client(func(cfg *quorumlock.Config) {
					cfg.NodeTimeoutMax = 3 * time.Second
					cfg.NodeTimeoutMin = cfg.NodeTimeoutMax
					cfg.Nodes[2] = &fleet.Spy{Node: f.Nodes[2], Before: onKind(wire.Latch, answers)}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if waiting {
					f.Stop(1)
				}
				err := late.Latch("a").CountDown(ctx, "x")
				f.Start(1)
				require.Equal(t, waiting, err != nil, "%v", err)
				require.NoError(t, l.Delete(t.Context()))
				time.Sleep(time.Millisecond)
				require.NoError(t, l.Set(t.Context(), 2))
				fleet.Settle()
				close(answers)
				fleet.Settle()
				left(t, l, 2)
			})
		})
	}
}

func TestUnusedLatchExpires(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		l := f.Client().Latch("a").With(quorumlock.LatchOptions{TTL: time.Minute})
		require.NoError(t, l.Set(t.Context(), 2))
		time.Sleep(time.Minute + time.Millisecond) // A node keeps a key until its last millisecond is over.
		_, err := l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)

		require.NoError(t, l.Set(t.Context(), 2))
		for range 5 {
			time.Sleep(50 * time.Second)
			counts(t, l, "x")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := awaiting(ctx, l) // A waiter keeps the latch from expiring.
		time.Sleep(time.Hour - time.Second)
		left(t, l, 1)
		err = <-done
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "quorumlock: latch \"a\" is open: 1 of 2 ids have not counted down")
		require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
	})
}

func TestInvalidLatches(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		l := c.Latch("a")
		for _, tc := range []struct {
			err  error
			want string
		}{
			{l.Set(t.Context(), 0), "cannot be set to 0"},
			{l.Set(t.Context(), wire.MaxLatchCount+1), "cannot be set to 1001: the range is 1 to 1000"},
			{l.CountDown(t.Context(), ""), "id of the count-down is empty"},
			{l.CountDown(t.Context(), strings.Repeat("x", 513)), "513 bytes"},
			{l.Await(nil), "context is nil"}, //nolint:staticcheck // the test needs a nil context
			{c.Latch("").Await(t.Context()), "a name is empty"},
			{c.Latch("quorumlock:a").Delete(t.Context()), "reserved"},
			{l.With(quorumlock.LatchOptions{TTL: time.Second}).Await(t.Context()), "under 10s"},
			{l.With(quorumlock.LatchOptions{TTL: 500 * 24 * time.Hour}).Await(t.Context()), "over"},
			{l.With(quorumlock.LatchOptions{TTL: time.Minute + 1}).Await(t.Context()), "whole number"},
			{c.Latch("").With(quorumlock.LatchOptions{TTL: time.Second}).Set(t.Context(), 0), "a name is empty; TTL 1s of a latch is under 10s; a latch cannot"},
		} {
			require.ErrorIs(t, tc.err, quorumlock.ErrInvalid, tc.want)
			require.ErrorContains(t, tc.err, tc.want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Set(ctx, 1), context.Canceled)
	})
}

func TestCloseEndsLatchCalls(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		c := f.Client()
		l := c.Latch("a")
		require.NoError(t, l.Set(t.Context(), 1))
		done := awaiting(t.Context(), l)
		time.Sleep(100 * time.Millisecond)
		f.Stop(0, 1)
		counting := make(chan error, 1)
		go func() { counting <- l.CountDown(t.Context(), "x") }()
		waits(t, counting)
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, <-done, quorumlock.ErrClosed)
		require.ErrorIs(t, <-counting, quorumlock.ErrClosed)
		require.ErrorIs(t, l.Set(t.Context(), 1), quorumlock.ErrClosed)
	})
}

// A node has begun the generation of a deletion, and another refuses its token, as a count-down with a larger one came
// first. Meanwhile another client passes the generation on, and sets the next latch. The deletion must not delete that.
func TestDeletionLeavesTheNextLatch(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		other := f.Client().Latch("job")
		require.NoError(t, other.Set(t.Context(), 2))
		fleet.Settle() // All nodes have it.
		c, spies := f.SpiedClient()
		hangs := make(chan struct{})
		spies[1].Set(func(s *fleet.Spy) { s.Before = onKind(wire.Unlatch, hangs) })
		f.Stop(2)
		deleted := make(chan error, 1)
		go func() { deleted <- c.Latch("job").Delete(t.Context()) }()
		fleet.Settle() // The first node has deleted the latch.

		f.Start(2)
		f.Do(2, wire.Granted, wire.Op{
			Kind: wire.Latch, Names: []string{"job"}, TTL: time.Hour, Latch: &wire.LatchOp{IDs: []string{"x"}},
			Token: uint64(f.Clock.Wall().Add(500 * time.Millisecond).UnixMicro()),
		})
		set := make(chan error, 1)
		spies[2].Set(func(s *fleet.Spy) {
			s.After = func(ops []wire.Op) {
				if slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Kind == wire.Unlatch }) && len(set) == 0 {
					ctx := context.WithoutCancel(t.Context())
					var err error
					for range 1000 { // A majority that does not know of the deletion may answer first.
						if _, err = other.Count(ctx); errors.Is(err, quorumlock.ErrLatchNotSet) {
							break
						}
					}
					set <- other.Set(ctx, 3)
				}
			}
		})
		require.NoError(t, <-deleted)
		require.NoError(t, <-set)
		close(hangs)
		left, err := other.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, left)
	})
}

// onKind makes a hook that holds up operations of a kind until the channel is closed.
func onKind(kind wire.Kind, pass <-chan struct{}) func([]wire.Op) {
	return func(ops []wire.Op) {
		if ops[0].Kind == kind {
			<-pass
		}
	}
}

// A node is slow to delete the latch. Meanwhile another client passes the deletion on to it, and sets the next latch.
// When the node then confirms the deletion, it has that latch, which must stay. The deletion is confirmed, also if the
// third node hangs until its context ends.
func TestSlowDeletionLeavesTheNextLatch(t *testing.T) {
	for _, hang := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			other := f.Client().Latch("job")
			require.NoError(t, other.Set(t.Context(), 2))
			time.Sleep(time.Second) // All nodes have it, and accept a later token.
			f.Stop(2)               // Its answer could hide the deletion from the other client.
			c, spies := f.SpiedClient()
			slow, hangs := make(chan struct{}), make(chan struct{})
			defer close(hangs)
			spies[1].Set(func(s *fleet.Spy) { s.Before = onKind(wire.Unlatch, slow) })
			ctx := t.Context()
			if hang {
				spies[2].Set(func(s *fleet.Spy) { s.Before = onKind(wire.Unlatch, hangs) })
				brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				ctx = brief
			}
			deleted := make(chan error, 1)
			go func() { deleted <- c.Latch("job").Delete(ctx) }()
			fleet.Settle() // The first node has deleted the latch.
			_, err := other.Count(t.Context())
			require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
			require.NoError(t, other.Set(t.Context(), 3))
			close(slow)
			require.NoError(t, <-deleted)
			fleet.Settle()
			left(t, other, 3)
		})
	}
}

// Two clients may propose the same token for their deletions: clocks are coarse. The second deletion must not pass for
// a repetition of the first one.
func TestDeletionsWithEqualTokens(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		first, second, other := f.Client().Latch("l"), f.Client().Latch("l"), f.Client().Latch("l")
		require.NoError(t, other.Set(t.Context(), 1))
		time.Sleep(time.Second)
		// No time passes from here on.
		require.NoError(t, first.Delete(t.Context()))
		require.NoError(t, other.Set(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := awaiting(ctx, other)
		waits(t, done)
		require.NoError(t, second.Delete(t.Context()))
		require.ErrorIs(t, <-done, quorumlock.ErrLatchDeleted)
		_, err := first.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
	})
}
