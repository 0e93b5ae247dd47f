package recipes_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/examples/recipes"
)

// startCron starts a scheduler with a job that runs every minute, and stops it at the end of the test.
func startCron(t *testing.T, run func(), options ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(options...)
	require.NoError(t, err)
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(run), gocron.WithName("report"))
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
}

// Five instances that started up to 40 seconds apart run a job once in each minute, however long it takes.
func TestCronLockerRunsEachJobOnce(t *testing.T) {
	for _, takes := range []time.Duration{0, 20 * time.Second} {
		instances(t, 5, func(t *testing.T, clients []*quorumlock.Client) {
			var runs atomic.Int64
			for _, c := range clients {
				locker := recipes.CronLocker{Client: c, Window: 55 * time.Second}
				startCron(t, func() {
					time.Sleep(takes)
					runs.Add(1)
				}, gocron.WithDistributedLocker(locker))
				time.Sleep(10 * time.Second)
			}
			time.Sleep(10*time.Minute + 35*time.Second) // the eleventh run has ended
			require.EqualValues(t, 11, runs.Load())
		})
	}
}

// A scheduler that shuts down ends the context while its last job runs. The job counts as done all the same.
func TestCronLockerRecordsInAShutdown(t *testing.T) {
	instances(t, 2, func(t *testing.T, clients []*quorumlock.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := recipes.CronLocker{Client: clients[0], Window: 55 * time.Second}.Lock(ctx, "report")
		require.NoError(t, err)
		cancel()
		require.NoError(t, lock.Unlock(ctx))
		_, err = recipes.CronLocker{Client: clients[1], Window: 55 * time.Second}.Lock(t.Context(), "report")
		require.ErrorIs(t, err, quorumlock.ErrDone)
	})
}

// While a job runs, no other instance runs it, however long it takes.
func TestCronLockerHoldsTheLockWhileTheJobRuns(t *testing.T) {
	instances(t, 3, func(t *testing.T, clients []*quorumlock.Client) {
		var running, most atomic.Int64
		var over atomic.Bool
		for _, c := range clients {
			startCron(t, func() {
				if over.Load() {
					return
				}
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(150 * time.Second)
				running.Add(-1)
			}, gocron.WithDistributedLocker(recipes.CronLocker{Client: c, Window: 55 * time.Second}))
			time.Sleep(7 * time.Second)
		}
		time.Sleep(20 * time.Minute)
		require.EqualValues(t, 1, most.Load())
		over.Store(true)
		time.Sleep(3 * time.Minute) // the last run ends: a scheduler that stops meanwhile polls, and virtual time stands still
	})
}

// The leader runs all jobs. When it resigns, another instance does.
func TestCronElector(t *testing.T) {
	instances(t, 3, func(t *testing.T, clients []*quorumlock.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		var runs [3]atomic.Int64
		var candidates []*election.Election
		lead := func(ctx context.Context, _ election.Term) error {
			<-ctx.Done()
			return nil
		}
		for i, client := range clients {
			c := election.New(client, "jobs", election.Config{Logger: slog.New(slog.DiscardHandler)})
			elector := recipes.CronElector{Candidate: c}
			require.Error(t, elector.IsLeader(ctx))
			candidates = append(candidates, c)
			done.Go(func() { _ = c.Run(ctx, lead) })
			startCron(t, func() { runs[i].Add(1) }, gocron.WithDistributedElector(elector))
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
