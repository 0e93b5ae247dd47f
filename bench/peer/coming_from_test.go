package peer

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// sides is one server, with a client of each library.
type sides struct {
	server    *redisproc.Server
	ours      *quorumlock.Client
	redsync   *redsync.Redsync
	redislock *redislock.Client
	rueidis   rueidislock.Locker
}

func newSides(t *testing.T) *sides {
	t.Helper()
	const patience = 1500 * time.Millisecond // longer than a busy machine stalls
	server := redisproc.Start(t)
	cfg := quorumlock.Config{
		Addresses: []string{server.Addr()}, Logger: slog.New(slog.DiscardHandler), NodeTimeoutMin: patience, NodeTimeoutMax: patience,
	}
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	s := &sides{server: server}
	s.ours, err = quorumlock.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.ours.Close(context.Background()) })
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	s.redsync, s.redislock = redsync.New(goredispool.NewPool(rdb)), redislock.New(rdb)
	s.rueidis, err = rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}}, KeyMajority: 1,
		TryNextAfter: 5 * time.Second, // a busy machine is no reason to fail
	})
	require.NoError(t, err)
	t.Cleanup(s.rueidis.Close)
	return s
}

// gone waits until the server has no such key.
func (s *sides) gone(t *testing.T, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, err := s.server.Command("EXISTS", key)
		return err == nil && n == "0"
	}, time.Minute, 5*time.Millisecond)
}

// TestKeysOfTheSameName: docs/coming-from.md says which libraries notice each other's locks, and how.
func TestKeysOfTheSameName(t *testing.T) {
	t.Parallel()
	s, ctx := newSides(t), t.Context()
	lease, err := s.ours.RedLock("ours").Acquire(ctx)
	require.NoError(t, err)
	var taken *redsync.ErrTaken
	require.ErrorAs(t, s.redsync.NewMutex("ours").TryLock(), &taken)
	_, err = s.redislock.Obtain(ctx, "ours", time.Second, nil)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, redislock.ErrNotObtained)
	_, cancel, err := s.rueidis.TryWithContext(ctx, "ours")
	require.NoError(t, err, "it has other keys")
	cancel()
	require.NoError(t, lease.Release(ctx))

	require.NoError(t, s.redsync.NewMutex("theirs").Lock())
	_, err = s.ours.RedLock("theirs").Acquire(ctx)
	require.ErrorIs(t, err, node.ErrWrongType)
	_, err = s.redislock.Obtain(ctx, "theirs too", time.Minute, nil)
	require.NoError(t, err)
	_, err = s.ours.RedLock("theirs too").Acquire(ctx)
	require.ErrorIs(t, err, node.ErrWrongType)
}

// The following tests play what docs/coming-from.md says of the calls of other libraries. The tests of this library have
// what it says of their counterparts.

func TestRedsyncIsAsThePageSays(t *testing.T) {
	t.Parallel()
	s := newSides(t)
	mutex := s.redsync.NewMutex("a", redsync.WithExpiry(time.Hour))
	require.NoError(t, mutex.Lock())
	err := s.redsync.NewMutex("a", redsync.WithTries(3), redsync.WithRetryDelay(time.Millisecond)).Lock()
	require.Error(t, err, "it gives up without any deadline")
	ok, err := s.redsync.NewMutex("a", redsync.WithValue(mutex.Value())).Unlock()
	require.True(t, ok, "it is unlocked elsewhere: %v", err)
	ok, err = mutex.Unlock()
	require.False(t, ok)
	require.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)

	const ttl = 100 * time.Millisecond
	mutex = s.redsync.NewMutex("b", redsync.WithExpiry(ttl), redsync.WithSetNXOnExtend(), redsync.WithTimeoutFactor(1))
	require.Eventually(t, func() bool { return mutex.Lock() == nil }, time.Minute, ttl)
	s.gone(t, "b")
	require.Eventually(t, func() bool { extended, _ := mutex.Extend(); return extended }, time.Minute, ttl, "it revives the lock")
}

func TestRedislockIsAsThePageSays(t *testing.T) {
	t.Parallel()
	s, ctx := newSides(t), t.Context()
	var lock *redislock.Lock
	var err error
	for range 2 { // with its token once more
		lock, err = s.redislock.Obtain(ctx, "a", time.Minute, &redislock.Options{Token: "token", Metadata: "import"})
		require.NoError(t, err)
	}
	assert.Equal(t, "import", lock.Metadata())
	_, err = s.redislock.Obtain(ctx, "a", time.Minute, nil)
	require.ErrorIs(t, err, redislock.ErrNotObtained)
	_, err = s.redislock.Obtain(context.Background(), "a", 50*time.Millisecond, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	require.ErrorIs(t, err, context.DeadlineExceeded, "it gives up after the TTL")
	require.NoError(t, lock.Refresh(ctx, 30*time.Second, nil))
	left, err := lock.TTL(ctx)
	require.NoError(t, err)
	assert.LessOrEqual(t, left, 30*time.Second, "it may also be shorter")
	require.NoError(t, lock.Release(ctx))
	require.ErrorIs(t, lock.Release(ctx), redislock.ErrLockNotHeld)
	require.ErrorIs(t, lock.Refresh(ctx, time.Minute, nil), redislock.ErrNotObtained)

	_, err = s.redislock.ObtainMulti(ctx, []string{"b", "c"}, time.Minute, nil)
	require.NoError(t, err)
	_, err = s.redislock.ObtainMulti(ctx, []string{"c", "d"}, time.Minute, nil)
	require.ErrorIs(t, err, redislock.ErrNotObtained)
}

func TestRueidislockIsAsThePageSays(t *testing.T) {
	t.Parallel()
	s := newSides(t)
	call, cancel := context.WithCancel(t.Context())
	held, unlock, err := s.rueidis.WithContext(call, "a")
	require.NoError(t, err)
	defer unlock()
	_, _, err = s.rueidis.TryWithContext(t.Context(), "a")
	require.ErrorIs(t, err, rueidislock.ErrNotLocked)
	cancel()
	require.Error(t, held.Err(), "the context of the call ends the lock")

	former, unlock, err := s.rueidis.WithContext(t.Context(), "b")
	require.NoError(t, err)
	defer unlock()
	next, unlock, err := s.rueidis.ForceWithContext(t.Context(), "b")
	require.NoError(t, err)
	defer unlock()
	<-former.Done()
	s.rueidis.Close()
	<-next.Done()
	_, _, err = s.rueidis.WithContext(t.Context(), "a")
	require.ErrorIs(t, err, rueidislock.ErrLockerClosed)
}
