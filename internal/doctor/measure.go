package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// samples is the number of measured round trips.
const samples = 30

// sample is one request for the server's time: when it was sent and answered, by this machine's clock, and the
// answer.
type sample struct {
	sent, told time.Time
	trip       time.Duration
}

// offset returns the offset of the server's clock. The server read it at some time within the round trip, so the
// middle is wrong by half of the round trip at most.
func (s sample) offset() Offset {
	return Offset{Ahead: s.told.Sub(s.sent) - s.trip/2, Error: s.trip / 2}
}

// best returns the offset with the smallest error.
func best(all []sample) Offset {
	return slices.MinFunc(all, func(a, b sample) int { return int(a.trip - b.trip) }).offset()
}

// measure requests the time repeatedly, one request after the other. If TIME is not permitted, the refusals still
// measure round trips.
func (e *examiner) measure(ctx context.Context) {
	var told []sample
	here := clock.System()
	for range samples {
		s := sample{sent: here.Wall()}
		began := here.Now()
		at, err := e.serverTime(ctx)
		s.trip, s.told = here.Now()-began, at
		if err == nil {
			told = append(told, s)
		} else {
			e.Clock.Err = err
			if !isReply(err) {
				break
			}
		}
		e.Trips = append(e.Trips, s.trip)
	}
	if len(told) > 0 {
		e.Clock = Fact[Offset]{Value: best(told)}
	}
}
