package redisson

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// wakes bounds the time until a woken waiter has the lock. It is shorter than the polling interval of waiters, which is a
// second.
const (
	wakes = 500 * time.Millisecond
	times = 5
)

func TestUnlockInJavaWakesWaitersInGo(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock, caller := f.golang().RedLock(name), f.caller(watchdog)
	for _, kind := range []Kind{Red, Multi} {
		there := Lock{Kind: kind, Name: name}
		f.woken(func() time.Duration {
			f.locked(caller, there)
			granted := make(chan time.Time, 1)
			go func() {
				_ = lock.Do(f.ctx, func(context.Context) error {
					granted <- time.Now()
					return nil
				})
			}()
			f.eventually(func() bool {
				for i := range f.servers {
					if f.number(i, "ZCARD", queue) != 1 || f.number(i, "PUBSUB", "NUMPAT") != 1 {
						return false
					}
				}
				return true
			}, "the waiter must be in the queues, and subscribed")
			released := time.Now()
			require.NoError(t, caller.Unlock(t.Context(), there))
			took := (<-granted).Sub(released)
			f.eventually(func() bool { return f.owners()[0] == "" }, "the lock must be released")
			return took
		})
	}
}

// woken requires that a waiter gets the lock by wakes, and not by polls. A busy machine makes some wakes late.
func (f *fleet) woken(wait func() time.Duration) {
	f.t.Helper()
	for try, soon := 0, 0; soon < times; try++ {
		require.Less(f.t, try, 2*times, "the wake, and not a poll, must give the lock to the waiter")
		if wait() < wakes {
			soon++
		}
	}
}

// TestReleaseInGoWakesWaitersInJava: without the wake, Redisson would try again after the reported TTL, or after 1.5 seconds
// for each node.
func TestReleaseInGoWakesWaitersInJava(t *testing.T) {
	f := newFleet(t, 10*time.Second)
	lock, caller := f.golang().RedLock(name), f.caller(watchdog)
	for _, kind := range []Kind{One, Red, Multi} {
		f.woken(func() time.Duration {
			_, took := f.awaited(lock, caller, Lock{Kind: kind, Name: name})
			return took
		})
	}
}

// awaited makes a caller in Java wait for a lock, and then releases the lock. It returns the length of the wait, and its
// part after the release.
func (f *fleet) awaited(lock *quorumlock.Lock, caller *Caller, there Lock) (waited, took time.Duration) {
	f.t.Helper()
	lease := f.acquire(lock)
	f.owned(lease.Owner()) // A node that has not answered yet would give the caller its lock.
	before := f.denials()
	granted := make(chan error, 1)
	began := time.Now()
	go func() { granted <- caller.Lock(f.ctx, there) }()
	// On a busy machine the caller may have tried again by itself meanwhile, so there may be more denials.
	f.eventually(func() bool { return len(granted) > 0 || f.listeners(0) == 1 && f.denials() >= before+2 },
		"the caller must be denied, subscribe on the first node, and be denied again")
	require.Empty(f.t, granted, "the caller must wait")
	released := time.Now()
	require.NoError(f.t, lease.Release(f.ctx))
	require.NoError(f.t, <-granted)
	waited, took = time.Since(began), time.Since(released)
	require.NoError(f.t, caller.Unlock(f.ctx, there))
	f.eventually(func() bool { return f.listeners(0) == 0 }, "the subscription must be closed")
	return waited, took
}

// TestWithoutTheOptionRedissonWaitsForTheTTL shows the purpose of Config.Redisson.
func TestWithoutTheOptionRedissonWaitsForTheTTL(t *testing.T) {
	f := newFleet(t, 4*time.Second)
	silent := f.golang(func(c *quorumlock.Config) { c.Redisson = false }).RedLock(name)
	caller := f.caller(watchdog)
	// The denial reported the remaining TTL of the lease to Redisson. Renewals keep it above a half. On a busy
	// machine, the release may come long after the denial: such a try says nothing.
	reported := f.config.TTL / 2
	for range 10 {
		waited, took := f.awaited(silent, caller, Lock{Kind: One, Name: name})
		require.Greater(t, waited, reported)
		if waited-took <= reported {
			return
		}
	}
	t.Fatalf("the release never came within %v of the denial", reported)
}

// denials counts the denials of Redisson's script on the first node. Each denial calls HEXISTS once, and no script of
// this library does.
func (f *fleet) denials() int {
	f.t.Helper()
	for line := range strings.Lines(f.command(0, "INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_hexists:calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(calls)
			require.NoError(f.t, err)
			return n
		}
	}
	return 0
}
