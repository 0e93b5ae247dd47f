package decision_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
)

const never = 1<<63 - 1

func TestForecast(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name string
		tell func(f *decision.Forecast)
		want time.Duration
	}{
		{"nothing is known", func(*decision.Forecast) {}, never},
		{"all expire later", func(f *decision.Forecast) {
			f.Denied(0, 5*time.Second, 0)
			f.Denied(1, 5*time.Second, 0)
		}, 5 * time.Second},
		{"the second of three expires", func(f *decision.Forecast) {
			f.Denied(0, 300*ms, 0)
			f.Denied(1, 100*ms, 0)
			f.Denied(2, 200*ms, 0)
		}, 200 * ms},
		{"an unknown one is not expected", func(f *decision.Forecast) {
			f.Denied(0, 300*ms, 0)
			f.Denied(1, 100*ms, 0)
		}, 300 * ms},
		{"those in front go first", func(f *decision.Forecast) {
			f.Denied(0, 100*ms, 7)
			f.Denied(1, 100*ms, 7)
		}, 114 * ms},
		{"an idle one is free", func(f *decision.Forecast) {
			f.Free(0, 10*ms)
			f.Denied(1, 100*ms, 0)
		}, 100 * ms},
		{"one release: the others follow", func(f *decision.Forecast) {
			f.Denied(0, 500*ms, 0)
			f.Denied(1, 500*ms, 0)
			f.Woken(1, 40*ms)
		}, 41 * ms},
		{"two releases are enough at once", func(f *decision.Forecast) {
			f.Woken(1, 40*ms)
			f.Woken(2, 40*ms+500*time.Microsecond)
		}, 40*ms + 500*time.Microsecond},
		{"a wake before its denial", func(f *decision.Forecast) {
			f.Woken(1, 40*ms)
			f.Denied(1, 900*ms, 0)
			f.Woken(0, 40*ms)
		}, 40 * ms},
		{"the second in line holds back", func(f *decision.Forecast) {
			f.Denied(0, 900*ms, 1)
			f.Denied(1, 900*ms, 1)
			f.Standby(0, 50*ms)
			f.Standby(1, 52*ms)
		}, 82 * ms},
		{"standing by puts nothing off", func(f *decision.Forecast) {
			f.Denied(0, 60*ms, 0)
			f.Denied(1, 60*ms, 0)
			f.Standby(0, 50*ms)
			f.Standby(1, 50*ms)
		}, 60 * ms},
		{"the earlier message of a node stands", func(f *decision.Forecast) {
			f.Free(0, 10*ms)
			f.Standby(0, 20*ms)
			f.Free(1, 15*ms)
		}, 15 * ms},
		{"the grace begins with the first release", func(f *decision.Forecast) {
			f.Woken(0, 10*ms)
			f.Woken(0, 20*ms)
		}, 11 * ms},
		{"one reserved for the first of several ahead", func(f *decision.Forecast) {
			f.Reserved(0, 100*ms, 1)
			f.Reserved(1, 100*ms, 5)
		}, 150 * ms},
		{"one reserved for the only waiter ahead", func(f *decision.Forecast) {
			f.Reserved(0, 100*ms, 1)
			f.Reserved(1, 100*ms, 1)
		}, 100 * ms},
		{"a rank below zero is the first", func(f *decision.Forecast) {
			f.Denied(0, 100*ms, -1)
			f.Denied(1, 100*ms, -1)
		}, 100 * ms},
		{"another attempt makes it old", func(f *decision.Forecast) {
			f.Denied(1, 60*ms, 0)
			f.Denied(2, 60*ms, 0)
			f.Woken(0, 10*ms)
			f.Woken(1, 10*ms)
			f.StartAttempt(ms)
		}, never},
		{"a later answer replaces an earlier one", func(f *decision.Forecast) {
			f.Denied(0, 100*ms, 0)
			f.Denied(1, 100*ms, 0)
			f.Denied(0, 300*ms, 0)
			f.Reserved(1, 200*ms, 0)
		}, 300 * ms},
		{"never stays never", func(f *decision.Forecast) {
			f.Denied(0, math.MaxInt64, 100)
			f.Denied(1, math.MaxInt64-1, 100)
		}, never},
	} {
		f := decision.NewForecast(3, 2)
		f.StartAttempt(ms)
		tc.tell(&f)
		require.Equal(t, tc.want, f.NextAttempt(), tc.name)
	}
	f := decision.NewForecast(3, 2)
	require.Zero(t, f.NextAttempt(), "the first attempt is worthwhile at once")
}

// A standby message is not lost if it overtakes the denial.
func TestStandbyMessageBeforeItsDenial(t *testing.T) {
	f := decision.NewForecast(1, 1)
	f.StartAttempt(time.Millisecond)
	f.Standby(0, 5*time.Millisecond)
	f.Denied(0, 9*time.Second, 1)
	require.Equal(t, 35*time.Millisecond, f.NextAttempt())
}
