package latch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// forEachDelay runs a test with a call that reaches the third node at once, the second node late, and the first node
// never. Meanwhile the third node loses its memory, and another client restores it from the others. So no two nodes had the result of the call at one
// moment, and readers of the first and the third node may never learn of it. In a prompt call, the delay is shorter than
// the least time after which a client restores a node. In a late one, it is longer.
func forEachDelay(t *testing.T, test func(t *testing.T, f *fleet.Fleet, late func() *quorumlock.Latch, meanwhile func(call func() error))) {
	t.Helper()
	for name, delay := range map[string]time.Duration{
		"at once": time.Millisecond, "prompt": 300 * time.Millisecond, "late": 2 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				c, wires := f.SpiedClient(func(cfg *quorumlock.Config) {
					cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 3*time.Second, 3*time.Second
				})
				f.Introduce(c)
				wires[0].Severed.Store(true)
				test(t, f, func() *quorumlock.Latch { return c.Latch("a") }, func(call func() error) {
					wires[1].Slow.Store(int64(delay))
					done := make(chan error, 1)
					go func() { done <- call() }()
					fleet.Settle()
					f.Nodes[2].Flush()
					_, err := f.Client().Latch("a").Count(t.Context())
					require.NoError(t, err)
					time.Sleep(delay - time.Microsecond)
					wires[1].Slow.Store(0)
					require.NoError(t, <-done)
					f.Stop(1)
					time.Sleep(2 * time.Second)
				})
			})
		})
	}
}

// leftOnceReadable requires this many missing count-downs of each read that succeeds. The second node must be stopped.
func leftOnceReadable(t *testing.T, f *fleet.Fleet, want int) {
	t.Helper()
	l := f.Client().Latch("a")
	if got, err := l.Count(t.Context()); err == nil {
		require.Equal(t, want, got)
	} else {
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	}
	f.Start(1)
	time.Sleep(2 * time.Second)
	restores(t, l, want)
	f.Stop(1)
	time.Sleep(2 * time.Second)
	left(t, l, want)
	f.Start(1)
}

func TestCountDownThatReachesANodeLate(t *testing.T) {
	forEachDelay(t, func(t *testing.T, f *fleet.Fleet, late func() *quorumlock.Latch, meanwhile func(func() error)) {
		require.NoError(t, f.Client().Latch("a").Set(t.Context(), 3))
		fleet.Settle()
		meanwhile(func() error { return late().CountDown(t.Context(), "x") })
		leftOnceReadable(t, f, 2)
	})
}

func TestDeleteThatReachesANodeLate(t *testing.T) {
	forEachDelay(t, func(t *testing.T, f *fleet.Fleet, late func() *quorumlock.Latch, meanwhile func(func() error)) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		fleet.Settle()
		time.Sleep(time.Millisecond) // Each operation needs a larger token than the one before.
		meanwhile(func() error { return late().Delete(t.Context()) })
		_, err := l.Count(t.Context())
		if !errors.Is(err, quorumlock.ErrLatchNotSet) {
			require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		}
		require.Error(t, err, "the latch is deleted")
		f.Start(1)
		time.Sleep(2 * time.Second)
		_, err = l.Count(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrLatchNotSet)
	})
}

// A read tells of a count-down that only one node had before.
func TestReadThatReachesANodeLate(t *testing.T) {
	forEachDelay(t, func(t *testing.T, f *fleet.Fleet, late func() *quorumlock.Latch, meanwhile func(func() error)) {
		l := f.Client().Latch("a")
		require.NoError(t, l.Set(t.Context(), 3))
		fleet.Settle()
		f.Stop(0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.CountDown(ctx, "x"), quorumlock.ErrNoQuorum)
		f.Start(0, 1)
		time.Sleep(2 * time.Second)
		told := 0
		meanwhile(func() (err error) {
			for range 10 {
				if told, err = late().Count(t.Context()); err == nil {
					break
				}
			}
			return err
		})
		leftOnceReadable(t, f, told)
	})
}

// On long links each call takes longer than a prompt one. It asks the nodes once more, and succeeds.
func TestCallsOnLongLinksAskTwice(t *testing.T) {
	for name, tc := range map[string]struct{ delay, took time.Duration }{
		"prompt": {400 * time.Millisecond, 400 * time.Millisecond},
		"late":   {600 * time.Millisecond, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				c, wires := f.SpiedClient(func(cfg *quorumlock.Config) {
					cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = 3*time.Second, 3*time.Second
				})
				f.Introduce(c)
				for _, w := range wires {
					w.Slow.Store(int64(tc.delay))
				}
				l := c.Latch("a")
				for _, call := range []func() error{
					func() error { return l.Set(t.Context(), 1) },
					func() error { return l.CountDown(t.Context(), "x") },
					func() error { return l.Await(t.Context()) },
					func() error { return l.Delete(t.Context()) },
				} {
					require.Equal(t, tc.took, f.Elapsed(func() { require.NoError(t, call()) }))
					time.Sleep(time.Second) // Late answers have arrived by then.
				}
			})
		})
	}
}

// Count needs only one round while other clients count down. This holds even if a node loses its memory meanwhile, and
// its ids are restored.
func TestCountDuringCountDownsTakesOneRound(t *testing.T) {
	for _, forgetful := range []bool{false, true} {
		fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
			const each, n = 50, 8
			once := func(cfg *quorumlock.Config) {
				cfg.Hooks.Latch = func(e quorumlock.LatchEvent) {
					assert.True(t, e.Op != "count latch" || e.Rounds == 1, "%d rounds", e.Rounds)
				}
			}
			one, other := f.Client(once).Latch("a"), f.Client(once).Latch("a")
			require.NoError(t, one.Set(t.Context(), n*each))
			var all sync.WaitGroup
			for g := range n {
				l := one
				if g%2 == 0 {
					l = other
				}
				all.Go(func() {
					for i := range each {
						if forgetful && g == 0 && i%10 == 5 {
							f.Nodes[2].Flush()
						}
						err := l.CountDown(t.Context(), fmt.Sprint(g, ".", i))
						_, err2 := l.Count(t.Context())
						assert.NoError(t, errors.Join(err, err2))
					}
				})
			}
			all.Wait()
			left(t, one, 0)
		})
	}
}

// Count runs during the last count-down. It succeeds once enough nodes agree, although a slower node may already know
// more.
func TestCountDuringLastCountDown(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		one, other := f.Client(), f.Client()
		for i := range 3000 { // This is enough to hit the race several times.
			reads, counts := one.Latch(fmt.Sprint(i)), other.Latch(fmt.Sprint(i))
			require.NoError(t, reads.Set(t.Context(), 1))
			var all sync.WaitGroup
			all.Go(func() { assert.NoError(t, counts.CountDown(t.Context(), "x")) })
			_, err := reads.Count(t.Context())
			all.Wait()
			require.NoError(t, err)
		}
	})
}
