package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// busy returns a history of one name under contention, with approximately the given number of events.
func busy(b *testing.B, events int) *History {
	b.Helper()
	s := newSimulation(rand.New(rand.NewPCG(1, 2)), 10, 2, 1000)
	for len(s.events) < events {
		s.lease("job")
	}
	return s.history(b)
}

// zombie makes the holder of a lease in the middle see its lease valid at the end.
func zombie(b *testing.B, h *History) *History {
	b.Helper()
	events := h.Events()
	_, last := h.span()
	for i := len(events) / 2; ; i++ {
		if events[i].Kind == Act {
			events[i].Call, events[i].Return, events[i].Error = last+1, last+2, ""
			break
		}
	}
	illegal, err := New(events...)
	if err != nil {
		b.Fatal(err)
	}
	return illegal
}

func BenchmarkCheck(b *testing.B) {
	for _, events := range []int{20_000, 50_000} {
		legal := busy(b, events)
		for _, c := range []struct {
			want Verdict
			h    *History
		}{{Ok, legal}, {Illegal, zombie(b, legal)}} {
			b.Run(fmt.Sprintf("events=%d/%s", events, c.want), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if r := Check(c.h, time.Minute); r.Verdict != c.want {
						b.Fatal(r.Verdict, r.Err())
					}
				}
			})
		}
	}
}
