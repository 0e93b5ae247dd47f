package peer

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
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

// sides is one server, with a client of each library. A call of ours makes one attempt where another library may make
// many, so ours waits for answers for longer than a busy machine stalls. brisk has the default timeouts, which short
// TTLs need.
type sides struct {
	server    *redisproc.Server
	cfg       quorumlock.Config
	ours      *quorumlock.Client
	brisk     *quorumlock.Client
	redsync   *redsync.Redsync
	redislock *redislock.Client
	rueidis   rueidislock.Locker
}

func newSides(t *testing.T) *sides {
	t.Helper()
	server := redisproc.Start(t)
	s := &sides{server: server, cfg: quorumlock.Config{Addresses: []string{server.Addr()}, Logger: slog.New(slog.DiscardHandler)}}
	var err error
	s.brisk, err = quorumlock.New(s.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.brisk.Close(context.Background()) })
	s.cfg.NodeTimeoutMin, s.cfg.NodeTimeoutMax = answerTime, answerTime
	_, err = admin.Init(t.Context(), s.cfg)
	require.NoError(t, err)
	s.ours, err = quorumlock.New(s.cfg)
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

// answerTime is how long ours waits for an answer. A lock's TTL must be three times as long.
const answerTime = 1500 * time.Millisecond

// fixed is a lock that is not renewed.
func (s *sides) fixed(name string, ttl time.Duration) *quorumlock.Lock {
	client := s.ours
	if ttl < 3*answerTime {
		client = s.brisk
	}
	return client.RedLock(name).With(quorumlock.LockOptions{TTL: ttl, Fixed: true})
}

// gone waits until the server has no such key.
func (s *sides) gone(t *testing.T, key string) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, err := s.server.Command("EXISTS", key)
		return err == nil && n == "0"
	}, time.Minute, 5*time.Millisecond)
}

// pttl returns how long the server still keeps a key.
func (s *sides) pttl(t *testing.T, key string) time.Duration {
	t.Helper()
	text, err := s.server.Command("PTTL", key)
	require.NoError(t, err)
	ms, err := strconv.Atoi(text)
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// TestComingFrom runs calls of other libraries and their counterparts beside each other. docs/coming-from.md states
// the differences that the subtests find.
func TestComingFrom(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, s *sides){
		"keys of the same name":                   sameName,
		"redsync and redislock give up waiting":   givingUp,
		"nothing revives a lease":                 reviving,
		"a lease is shorter than its TTL":         remaining,
		"extending for another time":              refreshing,
		"obtaining once more":                     obtainingAgain,
		"releasing twice":                         releasingTwice,
		"the context of the call ends no lease":   contextOfTheCall,
		"metadata is the purpose":                 metadata,
		"a forced release":                        forcing,
		"a TTL above MaxTTL needs another MaxTTL": longTTLs,
		"unlocking elsewhere":                     unlockingElsewhere,
		"one try, while another holds":            oneTry,
		"the end of the wait":                     endOfTheWait,
		"several names at once":                   severalNames,
		"until when":                              untilWhen,
		"a lease that has expired":                expiring,
		"closing the client":                      closing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newSides(t))
		})
	}
}

func sameName(t *testing.T, s *sides) {
	ctx := t.Context()
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

func givingUp(t *testing.T, s *sides) {
	ctx := t.Context()
	require.NoError(t, s.redsync.NewMutex("a").Lock())
	err := s.redsync.NewMutex("a", redsync.WithTries(3), redsync.WithRetryDelay(time.Millisecond)).Lock()
	require.Error(t, err, "without any deadline")

	const ttl = 50 * time.Millisecond
	_, err = s.redislock.Obtain(ctx, "b", time.Minute, nil)
	require.NoError(t, err)
	_, err = s.redislock.Obtain(context.Background(), "b", ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	require.ErrorIs(t, err, context.DeadlineExceeded, "after its TTL")

	lease, err := s.ours.RedLock("c").Acquire(ctx)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		next, err := s.ours.RedLock("c").Acquire(context.Background())
		if err == nil {
			err = next.Release(context.Background())
		}
		got <- err
	}()
	select {
	case err := <-got:
		require.Fail(t, "it must go on waiting", "%v", err)
	case <-time.After(10 * ttl):
	}
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, <-got)
}

func reviving(t *testing.T, s *sides) {
	const ttl = 100 * time.Millisecond
	mutex := s.redsync.NewMutex("a", redsync.WithExpiry(ttl), redsync.WithSetNXOnExtend(), redsync.WithTimeoutFactor(1))
	require.Eventually(t, func() bool { return mutex.Lock() == nil }, time.Minute, ttl)
	s.gone(t, "a")
	require.Eventually(t, func() bool { extended, _ := mutex.Extend(); return extended }, time.Minute, ttl, "it revives the lock")

	var lease *quorumlock.Lease
	require.Eventually(t, func() (ok bool) {
		var err error
		lease, err = s.fixed("b", ttl).TryAcquire(t.Context())
		return err == nil
	}, time.Minute, ttl)
	s.gone(t, "b")
	require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrLost)
	n, err := s.server.Command("EXISTS", "b")
	require.NoError(t, err)
	require.Equal(t, "0", n)
}

func remaining(t *testing.T, s *sides) {
	const ttl = 10 * time.Second
	theirs, err := s.redislock.Obtain(t.Context(), "a", ttl, nil)
	require.NoError(t, err)
	least := s.pttl(t, "a")
	left, err := theirs.TTL(t.Context())
	require.NoError(t, err)
	assert.InDelta(t, least, left, float64(time.Second), "it is the TTL of the key")

	lease, err := s.fixed("b", ttl).Acquire(t.Context())
	require.NoError(t, err)
	left = lease.Remaining() // before the TTL of the key, which only gets shorter
	key := s.pttl(t, "b")
	assert.LessOrEqual(t, left, ttl-ttl/100-2*time.Millisecond)
	assert.Less(t, lease.Remaining(), key, "the lease ends before its key")
	require.NoError(t, lease.Err())
}

func refreshing(t *testing.T, s *sides) {
	ctx := t.Context()
	theirs, err := s.redislock.Obtain(ctx, "a", time.Second*5, nil)
	require.NoError(t, err)
	require.NoError(t, theirs.Refresh(ctx, time.Minute, nil))
	assert.Greater(t, s.pttl(t, "a"), 30*time.Second)

	lease, err := s.fixed("b", 5*time.Second).Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Extend(ctx))
	assert.LessOrEqual(t, lease.Remaining(), 5*time.Second)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.ExtendFor(ctx, 10*time.Second))
	assert.Greater(t, s.pttl(t, "b"), 6*time.Second)
	require.ErrorIs(t, lease.ExtendFor(ctx, time.Minute), quorumlock.ErrInvalid, "more than MaxTTL")
	require.NoError(t, theirs.Refresh(ctx, time.Second, nil))
	assert.LessOrEqual(t, s.pttl(t, "a"), time.Second, "it may also be shorter there")
	require.NoError(t, lease.ExtendFor(ctx, time.Second))
	assert.Greater(t, s.pttl(t, "b"), 2*time.Second)
}

func obtainingAgain(t *testing.T, s *sides) {
	ctx := t.Context()
	for range 2 {
		_, err := s.redislock.Obtain(ctx, "a", time.Minute, &redislock.Options{Token: "token"})
		require.NoError(t, err)
	}
	outer, err := s.ours.RedLock("b").Acquire(ctx)
	require.NoError(t, err)
	inner, err := s.ours.RedLock("b").Acquire(outer.Context())
	require.NoError(t, err)
	assert.Equal(t, outer.Owner(), inner.Owner())
	require.NoError(t, inner.Release(ctx))
	require.NoError(t, outer.Release(ctx))
}

func releasingTwice(t *testing.T, s *sides) {
	ctx := t.Context()
	mutex := s.redsync.NewMutex("a")
	require.NoError(t, mutex.Lock())
	ok, err := mutex.Unlock()
	require.True(t, ok, "%v", err)
	ok, err = mutex.Unlock()
	require.False(t, ok)
	require.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)

	theirs, err := s.redislock.Obtain(ctx, "b", time.Minute, nil)
	require.NoError(t, err)
	require.NoError(t, theirs.Release(ctx))
	require.ErrorIs(t, theirs.Release(ctx), redislock.ErrLockNotHeld)
	require.ErrorIs(t, theirs.Refresh(ctx, time.Minute, nil), redislock.ErrNotObtained)

	lease, err := s.ours.RedLock("c").Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, lease.Release(ctx))
	require.ErrorIs(t, lease.Release(ctx), quorumlock.ErrReleased)
}

func contextOfTheCall(t *testing.T, s *sides) {
	call, cancel := context.WithCancel(t.Context())
	theirs, unlock, err := s.rueidis.WithContext(call, "a")
	require.NoError(t, err)
	defer unlock()
	lease, err := s.ours.RedLock("b").Acquire(call)
	require.NoError(t, err)
	cancel()
	require.Error(t, theirs.Err())
	require.NoError(t, lease.Context().Err())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release(call))
}

func metadata(t *testing.T, s *sides) {
	ctx := t.Context()
	theirs, err := s.redislock.Obtain(ctx, "a", time.Minute, &redislock.Options{Metadata: "import of 2026-11-22"})
	require.NoError(t, err)
	assert.Equal(t, "import of 2026-11-22", theirs.Metadata())

	lock := s.ours.RedLock("b").With(quorumlock.LockOptions{Purpose: "import of 2026-11-22"})
	lease, err := lock.Acquire(ctx)
	require.NoError(t, err)
	assert.Equal(t, "import of 2026-11-22", quorumlock.ParseOwner(lease.Owner()).Purpose)
	_, err = lock.TryAcquire(ctx)
	var held *quorumlock.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, "import of 2026-11-22", quorumlock.ParseOwner(held.Owner).Purpose)
	require.NoError(t, lease.Release(ctx))

	long := strings.Repeat("x", quorumlock.MaxPurposeLength+1)
	_, err = lock.With(quorumlock.LockOptions{Purpose: long}).Acquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrInvalid)
}

func forcing(t *testing.T, s *sides) {
	ctx := t.Context()
	former, unlock, err := s.rueidis.WithContext(ctx, "a")
	require.NoError(t, err)
	defer unlock()
	_, forced, err := s.rueidis.ForceWithContext(ctx, "a")
	require.NoError(t, err)
	defer forced()
	<-former.Done()

	lease, err := s.ours.RedLock("b").With(quorumlock.LockOptions{TTL: 5 * time.Second}).Acquire(ctx)
	require.NoError(t, err)
	_, err = s.ours.RedLock("b").ForceRelease(ctx)
	require.NoError(t, err)
	<-lease.Context().Done()
	var lost *quorumlock.LostError
	require.ErrorAs(t, lease.Err(), &lost)
	assert.Equal(t, quorumlock.LossForced, lost.Cause)
}

func longTTLs(t *testing.T, s *sides) {
	ctx := t.Context()
	require.NoError(t, s.redsync.NewMutex("a", redsync.WithExpiry(time.Hour)).Lock())
	_, err := s.redislock.Obtain(ctx, "b", time.Hour, nil)
	require.NoError(t, err)

	_, err = s.fixed("c", 30*time.Second).Acquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrInvalid)
	_, err = s.fixed("c", time.Millisecond).Acquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrInvalid)
	cfg := s.cfg
	cfg.MaxTTL = 30 * time.Second
	other, err := quorumlock.New(cfg)
	require.NoError(t, err)
	defer func() { _ = other.Close(ctx) }()
	_, err = other.RedLock("c").TryAcquire(ctx)
	require.ErrorIs(t, err, node.ErrSettings)
}

func unlockingElsewhere(t *testing.T, s *sides) {
	ctx := t.Context()
	mutex := s.redsync.NewMutex("a")
	require.NoError(t, mutex.Lock())
	ok, err := s.redsync.NewMutex("a", redsync.WithValue(mutex.Value())).Unlock()
	require.True(t, ok, "%v", err)

	lease, err := s.ours.RedLock("b").Acquire(ctx)
	require.NoError(t, err)
	owner, err := lease.Detach()
	require.NoError(t, err)
	elsewhere, err := quorumlock.New(s.cfg)
	require.NoError(t, err)
	defer func() { _ = elsewhere.Close(ctx) }()
	status, err := elsewhere.RedLock("b").ReleaseOwner(ctx, owner)
	require.NoError(t, err)
	assert.Equal(t, owner, status.Holder())
	next, err := s.ours.RedLock("b").TryAcquire(ctx)
	require.NoError(t, err)
	require.NoError(t, next.Release(ctx))
}

func oneTry(t *testing.T, s *sides) {
	ctx := t.Context()
	require.NoError(t, s.redsync.NewMutex("a").Lock())
	require.Error(t, s.redsync.NewMutex("a").TryLock())
	_, err := s.redislock.Obtain(ctx, "b", time.Minute, nil)
	require.NoError(t, err)
	_, err = s.redislock.Obtain(ctx, "b", time.Minute, nil)
	require.ErrorIs(t, err, redislock.ErrNotObtained)
	_, unlock, err := s.rueidis.TryWithContext(ctx, "c")
	require.NoError(t, err)
	defer unlock()
	_, _, err = s.rueidis.TryWithContext(ctx, "c")
	require.ErrorIs(t, err, rueidislock.ErrNotLocked)

	lease, err := s.ours.RedLock("d").TryAcquire(ctx)
	require.NoError(t, err)
	_, err = s.ours.RedLock("d").TryAcquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	require.NoError(t, lease.Release(ctx))
	s.server.Kill()
	_, err = s.ours.RedLock("d").TryAcquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	require.NotErrorIs(t, err, quorumlock.ErrHeld)
}

func endOfTheWait(t *testing.T, s *sides) {
	require.NoError(t, s.redsync.NewMutex("a").Lock())
	lease, err := s.ours.RedLock("b").Acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(t, s.redsync.NewMutex("a").LockContext(ctx))
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second) // for the first answer, on a busy machine
	defer cancel()
	_, err = s.brisk.RedLock("b").Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var held *quorumlock.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, lease.Owner(), held.Owner)
	require.NoError(t, lease.Release(t.Context()))
}

func severalNames(t *testing.T, s *sides) {
	ctx := t.Context()
	_, err := s.redislock.ObtainMulti(ctx, []string{"a", "b"}, time.Minute, nil)
	require.NoError(t, err)
	_, err = s.redislock.ObtainMulti(ctx, []string{"b", "c"}, time.Minute, nil)
	require.ErrorIs(t, err, redislock.ErrNotObtained)
	lock := s.ours.MultiLock("d", "e").With(quorumlock.LockOptions{TTL: 5 * time.Second, Fixed: true})
	lease, err := lock.TryAcquire(ctx)
	require.NoError(t, err)
	_, err = s.ours.MultiLock("e", "f").TryAcquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	n, err := s.server.Command("EXISTS", "c", "f")
	require.NoError(t, err)
	assert.Equal(t, "0", n, "neither takes a part of the names")
	require.NoError(t, lease.Release(ctx))
}

func untilWhen(t *testing.T, s *sides) {
	const ttl = 8 * time.Second
	mutex := s.redsync.NewMutex("a", redsync.WithExpiry(ttl))
	require.NoError(t, mutex.Lock())
	lease, err := s.fixed("b", ttl).Acquire(t.Context())
	require.NoError(t, err)
	for _, until := range []time.Time{mutex.Until(), lease.ValidUntil()} {
		assert.WithinDuration(t, time.Now().Add(ttl), until, 4*time.Second)
	}
	valid, err := mutex.Valid() //nolint:staticcheck // the call that the table lists
	require.NoError(t, err)
	require.True(t, valid)
	require.NoError(t, lease.Err())
	assert.NotEqual(t, mutex.Value(), lease.Owner())
	assert.Equal(t, []string{mutex.Name()}, []string{"a"})
	assert.Equal(t, []string{"b"}, lease.Names())
}

func expiring(t *testing.T, s *sides) {
	const ttl = 100 * time.Millisecond
	var theirs *redislock.Lock
	require.Eventually(t, func() (ok bool) {
		var err error
		theirs, err = s.redislock.Obtain(t.Context(), "a", ttl, nil) // fails if it takes longer than the TTL
		return err == nil
	}, time.Minute, ttl)
	mutex := s.redsync.NewMutex("b", redsync.WithExpiry(ttl))
	require.Eventually(t, func() bool { return mutex.Lock() == nil }, time.Minute, ttl)
	var lease *quorumlock.Lease
	require.Eventually(t, func() (ok bool) {
		var err error
		lease, err = s.fixed("c", ttl).TryAcquire(t.Context())
		return err == nil
	}, time.Minute, ttl)
	for _, key := range []string{"a", "b", "c"} {
		s.gone(t, key)
	}
	require.ErrorIs(t, theirs.Release(t.Context()), redislock.ErrLockNotHeld)
	_, err := mutex.Unlock()
	require.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)
	require.ErrorIs(t, lease.Release(t.Context()), quorumlock.ErrLost)
	require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
}

func closing(t *testing.T, s *sides) {
	ctx := t.Context()
	held, _, err := s.rueidis.WithContext(ctx, "a")
	require.NoError(t, err)
	lease, err := s.ours.RedLock("b").Acquire(ctx)
	require.NoError(t, err)
	s.rueidis.Close()
	require.NoError(t, s.ours.Close(ctx))
	<-held.Done()
	require.ErrorIs(t, context.Cause(lease.Context()), quorumlock.ErrClosed)
	_, _, err = s.rueidis.WithContext(ctx, "a")
	require.ErrorIs(t, err, rueidislock.ErrLockerClosed)
	_, err = s.ours.RedLock("b").Acquire(ctx)
	require.ErrorIs(t, err, quorumlock.ErrClosed)
	s.gone(t, "b")
}
