package peer

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// withRedsync runs the work while redsync's lock is held and extended.
func withRedsync(ctx context.Context, mutex *redsync.Mutex, work func(context.Context) error) error {
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	extending := make(chan struct{})
	go func() {
		defer close(extending)
		defer stop() // the lock is lost, or the work is done
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(mutex.Until()) / 2):
			}
			if ok, _ := mutex.ExtendContext(ctx); !ok {
				return
			}
		}
	}()
	defer func() {
		stop()
		<-extending
		_, _ = mutex.UnlockContext(context.WithoutCancel(ctx)) // ctx has ended
	}()
	return work(ctx)
}

// releaseOne takes the new lock first.
func releaseOne(ctx context.Context, client *quorumlock.Client, mutex *redsync.Mutex, work func(context.Context) error) error {
	return client.RedLock("invoices:v2").Do(ctx, func(ctx context.Context) error {
		return withRedsync(ctx, mutex, work)
	})
}

// releaseTwo takes the new lock only.
func releaseTwo(ctx context.Context, client *quorumlock.Client, work func(context.Context) error) error {
	return client.RedLock("invoices:v2").Do(ctx, work)
}

// program is one program of the rollout, in its three versions.
type program struct {
	client *quorumlock.Client
	mutex  *redsync.Mutex
}

func (p program) old(ctx context.Context, work func(context.Context) error) error {
	return withRedsync(ctx, p.mutex, work)
}

func (p program) one(ctx context.Context, work func(context.Context) error) error {
	return releaseOne(ctx, p.client, p.mutex, work)
}

func (p program) two(ctx context.Context, work func(context.Context) error) error {
	return releaseTwo(ctx, p.client, work)
}

// TestMigratingFromRedsync plays the rollout of docs/coming-from.md on servers that are new, so that they grant no lock
// of ours for MaxTTL and MaxClockSkew. All times are 0.4 of the defaults, and of work that takes 10 s.
func TestMigratingFromRedsync(t *testing.T) {
	t.Parallel()
	const expiry, ttl, work = 3200 * time.Millisecond, 4 * time.Second, 4 * time.Second
	cfg := quorumlock.Config{
		TTL: ttl, MaxTTL: ttl, MaxClockSkew: ttl / 10, NodeTimeoutMin: ttl / 3, NodeTimeoutMax: ttl / 3,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, s := range redisproc.StartN(t, 3) {
		cfg.Addresses = append(cfg.Addresses, s.Addr())
	}
	start := func() program {
		client, err := quorumlock.New(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Close(context.Background())) })
		var pools []redis.Pool
		for _, address := range cfg.Addresses {
			rdb := goredis.NewClient(&goredis.Options{Addr: address})
			t.Cleanup(func() { _ = rdb.Close() })
			pools = append(pools, goredispool.NewPool(rdb))
		}
		// It waits longer for answers than the default of 5 %, because a busy machine stalls.
		mutex := redsync.New(pools...).NewMutex("invoices", redsync.WithExpiry(expiry), redsync.WithTries(1000),
			redsync.WithRetryDelay(50*time.Millisecond), redsync.WithTimeoutFactor(0.3))
		return program{client, mutex}
	}
	var mu sync.Mutex
	var inside, stage string
	finished := map[string]int{}
	working := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			mu.Lock()
			assert.Empty(t, inside, "%s: %s works at the same time", stage, name)
			inside = name
			mu.Unlock()
			var err error
			select {
			case <-ctx.Done(): // the lock is lost
				err = context.Cause(ctx)
			case <-time.After(work):
			}
			mu.Lock()
			defer mu.Unlock()
			if inside == name {
				inside = ""
			}
			if err == nil {
				finished[name]++
			}
			return err
		}
	}
	first, second, third := start(), start(), start()
	type run = func(context.Context, func(context.Context) error) error
	for _, next := range []struct {
		name string
		runs []run
	}{
		{"old programs and release one", []run{first.one, second.one, third.old}},
		{"release one and release two", []run{first.one, second.two, third.two}},
	} {
		stage = next.name
		clear(finished)
		var all sync.WaitGroup
		for i, run := range next.runs {
			name := []string{"first", "second", "third"}[i]
			all.Go(func() { // a lock that a stall has cost is tried again
				assert.Eventually(t, func() bool { return run(t.Context(), working(name)) == nil }, 2*time.Minute, time.Millisecond)
			})
		}
		all.Wait()
		assert.Len(t, finished, 3, "%s: each program has worked once", stage)
	}

	page, err := os.ReadFile("../../docs/coming-from.md")
	require.NoError(t, err)
	source, err := os.ReadFile("migrating_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(source), "\n// withRedsync ")
	code, _, _ = strings.Cut(code, "\n\n// program ")
	assert.Contains(t, string(page), "```go\n// withRedsync "+code+"\n```\n")
}
