package lease_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// stoppable is the clock of a process that can be stopped: time goes on, and no timer fires.
type stoppable struct {
	clock.Clock
	until atomic.Int64
}

func (s *stoppable) stop(d time.Duration) { s.until.Store(int64(s.Now() + d)) }

func (s *stoppable) AfterFunc(d time.Duration, f func()) clock.Timer {
	return s.Clock.AfterFunc(d, func() {
		if rest := time.Duration(s.until.Load()) - s.Now(); rest > 0 {
			time.Sleep(rest)
		}
		f()
	})
}

// A loss says that the process did not run, if that is the reason, and otherwise not. The log has it once.
func TestLossExplainsThatTheProcessDidNotRun(t *testing.T) {
	const ttl = 9 * time.Second
	for name, c := range map[string]struct {
		happens func(f *fleet.Fleet, process *stoppable)
		paused  bool
	}{
		"the process is stopped": {func(_ *fleet.Fleet, process *stoppable) { process.stop(15 * time.Second) }, true},
		"the nodes fail":         {func(f *fleet.Fleet, _ *stoppable) { f.Pause(0, 1) }, false},
		"a short stop, and later the nodes fail": {func(f *fleet.Fleet, process *stoppable) {
			process.stop(4 * time.Second)
			time.Sleep(30 * time.Second)
			f.Pause(0, 1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				process := &stoppable{Clock: f.Clock}
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, nil))
				client := f.Client(func(cfg *quorumlock.Config) { cfg.Clock, cfg.Logger = process, logger })
				lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: ttl}))
				ctx := lease.Context()
				time.Sleep(time.Second)
				c.happens(f, process)
				<-ctx.Done()
				var lost *quorumlock.LostError
				require.ErrorAs(t, context.Cause(ctx), &lost)
				require.Equal(t, quorumlock.LossUnconfirmed, lost.Cause)
				fleet.Settle()
				text := log.String()
				require.Equal(t, 1, strings.Count(text, "lease ended"), text)
				if !c.paused {
					require.Zero(t, lost.Paused)
					require.NotContains(t, text, "did not run")
					return
				}
				// The next renewal was due within a third of the TTL.
				require.Greater(t, lost.Paused, 15*time.Second-ttl/3)
				require.LessOrEqual(t, lost.Paused, 15*time.Second)
				require.ErrorContains(t, lost, `lease of "job" lost: no quorum of nodes confirmed a renewal in time; this process did not run for 1`)
				require.Equal(t, 1, strings.Count(text, "did not run"), text)
			})
		})
	}
}

// A call that asks a stopped process learns why, before any timer of the process has run.
func TestErrExplainsThatTheProcessDidNotRun(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		process := &stoppable{Clock: f.Clock}
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Clock = process })
		lease := fleet.MustAcquire(t, client.RedLock("job").With(quorumlock.LockOptions{TTL: 3 * time.Second}))
		process.stop(time.Minute)
		time.Sleep(30 * time.Second)
		var lost *quorumlock.LostError
		require.ErrorAs(t, lease.Err(), &lost)
		require.Greater(t, lost.Paused, 25*time.Second)
		time.Sleep(time.Minute) // until the process runs again
	})
}

// A NoQuorumError says why it did not wait for nodes.
func TestNoQuorumErrorSaysWhyItDidNotWait(t *testing.T) {
	base := quorumlock.NoQuorumError{Op: "acquire", Names: []string{"job"}, Need: 5, Total: 5}
	for want, change := range map[string]func(*quorumlock.NoQuorumError){
		`quorumlock: acquire "job": no quorum: 0 of 5 nodes agreed, 5 needed`:                                                                 func(*quorumlock.NoQuorumError) {},
		`quorumlock: acquire "job": no quorum: 0 of 5 nodes agreed, 5 needed, and 4 not waited for, as even with them there would be too few`: func(e *quorumlock.NoQuorumError) { e.Pending = 4 },
		`quorumlock: acquire "job": no quorum: 1 of 5 nodes agreed, 3 needed, and 2 had not answered when the call ended`:                     func(e *quorumlock.NoQuorumError) { e.Need, e.Agreed, e.Pending = 3, 1, 2 },
	} {
		e := base
		change(&e)
		require.EqualError(t, &e, want)
	}
}
