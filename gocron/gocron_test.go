package quorumcron_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/election"
	quorumcron "github.com/quorumlock/quorumlock/gocron"
	"github.com/quorumlock/quorumlock/node"
)

// fleet is three in-memory nodes.
type fleet []node.Node

func newFleet(t *testing.T) fleet {
	t.Helper()
	var f fleet
	for i := range 3 {
		f = append(f, node.NewMemory(fmt.Sprintf("n%d", i+1), clock.Process()))
	}
	_, err := admin.Init(t.Context(), f.config())
	require.NoError(t, err)
	return f
}

func (f fleet) config() quorumlock.Config {
	return quorumlock.Config{Nodes: f, Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)}
}

func (f fleet) client(t *testing.T) *quorumlock.Client {
	t.Helper()
	c, err := quorumlock.New(f.config())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// schedule starts a scheduler with a job that runs every minute, and stops it at the end of the test.
func schedule(t *testing.T, run func(), options ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(options...)
	require.NoError(t, err)
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(run), gocron.WithName("report"))
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
}

// Five instances whose clocks differ by up to two seconds run the job once in each minute. Without a MinHold, each of
// them runs it: the job is short, so the lock is free when the next instance comes.
func TestLockerRunsEachJobOnce(t *testing.T) {
	for _, test := range []struct {
		minHold time.Duration
		want    int64
	}{{9 * time.Second, 10}, {0, 50}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			var runs atomic.Int64
			for range 5 {
				locker := quorumcron.NewLocker(f.client(t), quorumlock.LockOptions{MinHold: test.minHold})
				schedule(t, func() { runs.Add(1) }, gocron.WithDistributedLocker(locker))
				time.Sleep(500 * time.Millisecond)
			}
			time.Sleep(10*time.Minute + 10*time.Second)
			require.Equal(t, test.want, runs.Load())
		})
	}
}

// While a job runs, no other instance runs it, however long it takes.
func TestLockerHoldsTheLockWhileTheJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var running, most atomic.Int64
		var over atomic.Bool
		for range 3 {
			locker := quorumcron.NewLocker(f.client(t), quorumlock.LockOptions{})
			schedule(t, func() {
				if over.Load() {
					return
				}
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(150 * time.Second)
				running.Add(-1)
			}, gocron.WithDistributedLocker(locker))
			time.Sleep(7 * time.Second)
		}
		time.Sleep(20 * time.Minute)
		require.EqualValues(t, 1, most.Load())
		over.Store(true)
		time.Sleep(3 * time.Minute) // the last run ends: a scheduler that stops meanwhile polls, and virtual time stands still
	})
}

// The leader runs all jobs. When it resigns, another instance does.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		var runs [3]atomic.Int64
		var candidates []*election.Election
		for i := range runs {
			c := election.New(f.client(t), "jobs", election.Config{Clock: clock.Process(), Logger: slog.New(slog.DiscardHandler)})
			require.ErrorIs(t, quorumcron.NewElector(c).IsLeader(ctx), quorumcron.ErrNotLeader)
			candidates = append(candidates, c)
			done.Go(func() { _ = c.Run(ctx, quorumcron.Lead) })
			schedule(t, func() { runs[i].Add(1) }, gocron.WithDistributedElector(quorumcron.NewElector(c)))
			time.Sleep(time.Second)
		}
		time.Sleep(10*time.Minute + 10*time.Second)
		require.EqualValues(t, 10, runs[0].Load(), "the first candidate leads")
		require.Zero(t, runs[1].Load()+runs[2].Load())
		require.True(t, candidates[0].Resign())
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 10, runs[0].Load())
		require.EqualValues(t, 10, runs[1].Load()+runs[2].Load())
		cancel()
		done.Wait()
	})
}
