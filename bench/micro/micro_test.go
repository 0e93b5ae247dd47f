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

// BenchmarkValidUntil finds until when a lease is valid.
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

// BenchmarkGate passes a resource's gate with a token that is never smaller.
func BenchmarkGate(b *testing.B) {
	b.ReportAllocs()
	g := fence.NewGate(0)
	token := uint64(0)
	for b.Loop() {
		token++
		require.NoError(b, g.Do(token, func() error { return nil }))
	}
}
