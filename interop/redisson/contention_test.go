package redisson_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/interop/redisson"
)

var (
	duration = flag.Duration("duration", 3*time.Second, "how long both sides contend for a lock, of each kind")
	saturate = flag.Bool("saturate", false, "contenders want the lock all the time; whether each gets it is then only told")
)

// contenders is the number on each side, each with a client of its own.
const contenders = 3

// contender acquires and releases a lock repeatedly.
type contender struct {
	name    string
	acquire func(ctx context.Context) (release func(context.Context) error, err error)
	grants  int           // while all of them wanted it
	longest time.Duration // that it waited
}

// TestContention: three callers of either side contend for one lock. No two hold it at a time, and all get it.
//
// Between, each pauses for several times as long as an acquire and release in Java takes. This library's MultiLock
// takes all nodes at once, or none. Redisson's takes one after the other, and keeps them. If there is always another
// Redisson caller that holds the first node, all nodes are never free.
func TestContention(t *testing.T) {
	for kind, describe := range map[redisson.Kind]func(*quorumlock.Client) *quorumlock.Lock{
		redisson.Red:   func(c *quorumlock.Client) *quorumlock.Lock { return c.RedLock(name) },
		redisson.Multi: func(c *quorumlock.Client) *quorumlock.Lock { return c.MultiLock(name) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			f := newFleet(t, 10*time.Second)
			var all []*contender
			for i := range contenders {
				all = append(all,
					goContender(fmt.Sprintf("Go %d", i), describe(f.golang())),
					javaContender(fmt.Sprintf("Java %d", i), f.caller(watchdog), redisson.Lock{Kind: kind, Name: name}))
			}
			violations := f.contend(all, f.pause(all[1]))
			for _, c := range all {
				t.Logf("%s: %d grants, waited %v at most", c.name, c.grants, c.longest.Round(time.Millisecond))
			}
			require.Zero(t, violations, "two had the lock at a time")
			for _, c := range all {
				require.True(t, c.grants > 0 || *saturate, "%s never had the lock", c.name)
			}
		})
	}
}

func goContender(name string, lock *quorumlock.Lock) *contender {
	return &contender{name: name, acquire: func(ctx context.Context) (func(context.Context) error, error) {
		lease, err := lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return lease.Release, nil
	}}
}

func javaContender(name string, caller *redisson.Caller, lock redisson.Lock) *contender {
	return &contender{name: name, acquire: func(ctx context.Context) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return caller.Unlock(ctx, lock) }, caller.Lock(ctx, lock)
	}}
}

// pause returns the longest pause of a contender: it grows with the time that a lock takes on this machine.
func (f *fleet) pause(c *contender) time.Duration {
	f.t.Helper()
	if *saturate {
		return 0
	}
	const warm, measured, part = 3, 5, 6
	var began time.Time
	for i := range warm + measured {
		if i == warm {
			began = time.Now()
		}
		release, err := c.acquire(f.ctx)
		require.NoError(f.t, err)
		require.NoError(f.t, release(f.ctx))
	}
	return part * time.Since(began) / measured
}

// contend makes all contenders acquire and release the lock, with pauses up to the given one. It returns the number
// of grants that were not exclusive.
func (f *fleet) contend(all []*contender, pause time.Duration) (violations int64) {
	f.t.Helper()
	const held = time.Millisecond
	var holders, seen atomic.Int64
	var running sync.WaitGroup
	failures := make(chan error, len(all))
	end := time.Now().Add(*duration)
	for _, c := range all {
		running.Go(func() {
			for time.Now().Before(end) {
				asked := time.Now()
				release, err := c.acquire(f.ctx)
				if err != nil {
					failures <- fmt.Errorf("%s: acquire: %w", c.name, err)
					return
				}
				c.longest = max(c.longest, time.Since(asked))
				if time.Now().Before(end) {
					c.grants++
				}
				if holders.Add(1) != 1 {
					seen.Add(1)
				}
				time.Sleep(held)
				holders.Add(-1)
				if err := release(f.ctx); err != nil {
					failures <- fmt.Errorf("%s: release: %w", c.name, err)
					return
				}
				time.Sleep(rand.N(pause + 1))
			}
		})
	}
	running.Wait()
	close(failures)
	for err := range failures {
		require.NoError(f.t, err)
	}
	return seen.Load()
}
