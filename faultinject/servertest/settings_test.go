package servertest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
)

// clockPrecision is the tolerated offset, besides the round trip.
const clockPrecision = 10 * time.Millisecond

func requireClock(t *testing.T, want time.Duration, s faultinject.Server) {
	t.Helper()
	before := time.Now()
	text := command(t, s, "TIME")
	after := time.Now()
	seconds, micros, ok := strings.Cut(text, "\n")
	require.True(t, ok, text)
	sec, err := strconv.ParseInt(seconds, 10, 64)
	require.NoError(t, err)
	usec, err := strconv.ParseInt(micros, 10, 64)
	require.NoError(t, err)
	shown := time.Unix(sec, usec*1000)
	require.GreaterOrEqual(t, shown.Sub(before), want-clockPrecision)
	require.LessOrEqual(t, shown.Sub(after), want+clockPrecision)
}

func clockSteps(t *testing.T, s faultinject.Server) {
	requireClock(t, 0, s)
	c := dial(t, s.Addr())
	for _, offset := range []time.Duration{time.Hour, -time.Hour, 1500 * time.Millisecond, 0} {
		if err := s.StepClock(within(t), offset); errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err) // the contract only promises this error
		} else {
			require.NoError(t, err)
		}
		requireClock(t, offset, s)
		require.Equal(t, "+PONG", c.ask(t, "PING"), "connections stand")
	}
	require.Equal(t, "+OK", c.ask(t, "SET k v EX 3600"))
	require.NoError(t, s.StepClock(within(t), 59*time.Minute))
	require.Equal(t, "v", c.ask(t, "GET k"))
	require.NoError(t, s.StepClock(within(t), 61*time.Minute))
	require.Equal(t, "$-1", c.ask(t, "GET k"))
}

func clockStepsUnseen(t *testing.T, s faultinject.Server) {
	if err := s.StepClock(within(t), time.Hour); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err) // the contract only promises this error
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, s.Kill(within(t)))
	require.NoError(t, s.Start(within(t)))
	requireClock(t, time.Hour, s)

	require.NoError(t, s.Kill(within(t)))
	require.NoError(t, s.StepClock(within(t), -time.Minute))
	require.NoError(t, s.Wipe(within(t)))
	require.NoError(t, s.Start(within(t)))
	requireClock(t, -time.Minute, s)

	require.NoError(t, s.Pause(within(t)))
	require.NoError(t, s.StepClock(within(t), time.Minute))
	require.NoError(t, s.Resume(within(t)))
	requireClock(t, time.Minute, s)
}

func memoryLimit(t *testing.T, s faultinject.Server) {
	c := dial(t, s.Addr())
	require.Equal(t, "+OK", c.ask(t, "SET k v"))
	require.NoError(t, s.SetMaxMemory(within(t), 1))
	require.Regexp(t, "^-OOM ", c.ask(t, "SET k w"))
	require.Equal(t, "v", c.ask(t, "GET k"), "nothing is evicted")
	require.NoError(t, s.SetMaxMemory(within(t), 0))
	require.Equal(t, "+OK", c.ask(t, "SET k w"))
	require.NoError(t, s.SetMaxMemory(within(t), 64<<20))
	require.Equal(t, "+OK", c.ask(t, "SET k x"))
	require.Equal(t, "maxmemory\n67108864", command(t, s, "CONFIG", "GET", "maxmemory"))
}

func memoryLimitStays(t *testing.T, s faultinject.Server) {
	require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k v"))
	require.NoError(t, s.SetMaxMemory(within(t), 1))
	require.NoError(t, s.Kill(within(t)))
	require.NoError(t, s.Start(within(t)))
	require.Regexp(t, "^-OOM ", dial(t, s.Addr()).ask(t, "SET k w"))
	require.Equal(t, "v", dial(t, s.Addr()).ask(t, "GET k"))

	require.NoError(t, s.Kill(within(t)))
	require.NoError(t, s.SetMaxMemory(within(t), 0), "the server is down")
	require.NoError(t, s.Start(within(t)))
	require.Equal(t, "+OK", dial(t, s.Addr()).ask(t, "SET k w"))
}

// step returns a step on a server, or on the way between it and all clients.
func step(fault faultinject.Fault) faultinject.Step {
	return faultinject.Step{Fault: fault, Client: faultinject.All, Amount: time.Hour, For: time.Second}
}

// usableDuring is usable for a server with a fault. A fault that silences the server bounds the wait by silence.
func usableDuring(t *testing.T, fault faultinject.Fault, s faultinject.Server) bool {
	t.Helper()
	ctx := within(t)
	if fault == faultinject.Pause || fault == faultinject.Part {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silence)
		defer cancel()
	}
	return usable(ctx, s)
}

func faults(t *testing.T, s faultinject.Server) {
	for _, fault := range []faultinject.Fault{
		faultinject.Stop, faultinject.Kill, faultinject.Pause, faultinject.Memory, faultinject.Part, faultinject.Clock,
	} {
		require.Equal(t, "OK", command(t, s, "SET", "k", "v"))
		require.True(t, usable(within(t), s), fault)
		err := faultinject.Begin(within(t), s, step(fault))
		if errors.Is(err, errors.ErrUnsupported) && fault == faultinject.Clock {
			continue
		}
		require.NoError(t, err, fault)
		require.False(t, usableDuring(t, fault, s), fault)
		require.NoError(t, faultinject.End(within(t), s, step(fault)), fault)
		require.True(t, usable(within(t), s), fault)
		require.Equal(t, "v", command(t, s, "GET", "k"), fault)
	}
	for _, fault := range []faultinject.Fault{faultinject.Wipe, faultinject.Flush} {
		require.Equal(t, "OK", command(t, s, "SET", "k", "v"))
		require.NoError(t, faultinject.Begin(within(t), s, step(fault)), fault)
		require.NoError(t, faultinject.End(within(t), s, step(fault)), fault)
		require.Equal(t, "0", command(t, s, "DBSIZE"), fault)
	}
	for _, fault := range []faultinject.Fault{faultinject.Deafen, faultinject.Freeze} {
		require.ErrorContains(t, faultinject.Begin(within(t), s, step(fault)), "n1: ")
		require.ErrorContains(t, faultinject.End(within(t), s, step(fault)), "n1: ")
	}
	one := step(faultinject.Part)
	one.Client = 0
	require.ErrorContains(t, faultinject.Begin(within(t), s, one), "n1: ")
}
