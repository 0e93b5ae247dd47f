package doctor

import (
	"context"
	"slices"
	"time"
)

// samples is how many round trips are measured.
const samples = 30

// sample is one question for the time: when it was sent and answered, by this machine's clock, and
// what the answer was.
type sample struct {
	sent, told time.Time
	trip       time.Duration
}

// offset is how far the clock that was asked is ahead. It was read at some time within the round
// trip, so half of that is the most that the middle can be wrong by.
func (s sample) offset() Offset {
	return Offset{Ahead: s.told.Sub(s.sent) - s.trip/2, Error: s.trip / 2}
}

// best is the offset that is known most exactly.
func best(all []sample) Offset {
	return slices.MinFunc(all, func(a, b sample) int { return int(a.trip - b.trip) }).offset()
}

// measure asks for the time again and again, one question after the other. Where that is not
// permitted, the refusals are round trips too.
func (e *examiner) measure(ctx context.Context) {
	var told []sample
	for range samples {
		s := sample{sent: e.clock.Wall()}
		began := e.clock.Now()
		at, err := e.serverTime(ctx)
		s.trip, s.told = e.clock.Now()-began, at
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
