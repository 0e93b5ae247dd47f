package micro

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/quorum"
)

var sizes = []int{1, 3, 5, 7, 9}

// BenchmarkTally counts the votes of one round.
func BenchmarkTally(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			need := quorum.Majority().Need(n)
			for b.Loop() {
				t := quorum.NewTally(n, need)
				for i := range n {
					t.Record(i, quorum.Granted)
				}
				if t.Result() != quorum.Won {
					b.Fatal(t.String())
				}
			}
		})
	}
}

// BenchmarkValidUntil computes the validity of a lease.
func BenchmarkValidUntil(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			expiries := make([]time.Duration, n)
			for i := range expiries {
				expiries[i] = time.Duration(1 + i*7%n)
			}
			for b.Loop() {
				if quorum.ValidUntil(expiries, n/2+1) == 0 {
					b.Fatal("not valid")
				}
			}
		})
	}
}

// BenchmarkClock reads the clock, and sets and stops a timer.
func BenchmarkClock(b *testing.B) {
	c := clock.System()
	b.Run("op=now", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if c.Now() == 0 {
				b.Fatal("no time")
			}
		}
	})
	b.Run("op=timer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.AfterFunc(time.Hour, func() {}).Stop()
		}
	})
}

// BenchmarkGate passes a resource's gate with tokens that never get smaller.
func BenchmarkGate(b *testing.B) {
	b.ReportAllocs()
	g := fence.NewGate(0)
	token := uint64(0)
	for b.Loop() {
		token++
		require.NoError(b, g.Do(token, func() error { return nil }))
	}
}

// BenchmarkForecast is a waiter's computation between two attempts: all nodes deny, most of them wake it, and after
// each message it computes its next attempt.
func BenchmarkForecast(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			f := quorum.NewForecast(n, n/2+1)
			var now, next time.Duration
			for b.Loop() {
				now += time.Millisecond
				f.StartAttempt(now, time.Millisecond)
				for i := range n {
					f.Denied(i, now+time.Second+time.Duration(i), i)
					next = f.NextAttempt(time.Second)
				}
				for i := range n/2 + 1 {
					f.Woken(i, now)
					next = f.NextAttempt(time.Second)
				}
			}
			if next > now+time.Millisecond {
				b.Fatal("the attempt is due as soon as enough nodes are free")
			}
		})
	}
}

// BenchmarkChooseSlots is a client's choice of a semaphore's permit, by the answers of all nodes.
func BenchmarkChooseSlots(b *testing.B) {
	for _, n := range sizes {
		for _, permits := range []int{1, 32, 1024} {
			b.Run(fmt.Sprintf("nodes=%d/permits=%d", n, permits), func(b *testing.B) {
				b.ReportAllocs()
				reports := make([]quorum.Slots, n)
				for i := range reports {
					reports[i] = quorum.Slots{}.With(permits - 1)
				}
				var chosen []int
				for start := 0; b.Loop(); start++ {
					chosen = quorum.ChooseSlots(1, permits, n/2+1, start, reports, nil, nil)
				}
				if len(chosen) != 1 || chosen[0] != permits-1 {
					b.Fatal("all nodes say which one is free")
				}
			})
		}
	}
}

// BenchmarkBackoff is the pause of a spinning waiter.
func BenchmarkBackoff(b *testing.B) {
	b.ReportAllocs()
	attempt := 0
	for b.Loop() {
		attempt++
		if quorum.Backoff(attempt%20, time.Millisecond, time.Second, 0.5) > time.Second {
			b.Fatal("too long a pause")
		}
	}
}

// BenchmarkViewLatch is a reader's computation from the answers of all nodes about a latch. Each answer lists all
// ids.
func BenchmarkViewLatch(b *testing.B) {
	for _, n := range sizes {
		for _, ids := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("nodes=%d/ids=%d", n, ids), func(b *testing.B) {
				b.ReportAllocs()
				all := make([]string, ids)
				for i := range all {
					all[i] = fmt.Sprintf("%08d", i)
				}
				answers := make([]quorum.LatchAnswer, n)
				for i := range answers {
					answers[i] = quorum.LatchAnswer{Told: true, Count: ids, Since: 1, IDs: all}
				}
				for b.Loop() {
					if v := quorum.ViewLatch(answers, n/2+1, nil, 1); !v.Done() || v.Holders != n {
						b.Fatal("all have counted down")
					}
				}
			})
		}
	}
}
