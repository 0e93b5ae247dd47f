package redisson

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
)

var (
	duration = flag.Duration("duration", 3*time.Second, "how long both sides contend for a lock of each kind")
	saturate = flag.Bool("saturate", false, "contend without pauses; a contender may then starve, which is only logged")
)

// contenders is the number of contenders on each side. Each has a client of its own.
const contenders = 3

// contender acquires and releases a lock repeatedly.
type contender struct {
	name    string
	acquire func(ctx context.Context) (release func(context.Context) error, err error)
	grants  int           // while all contended
	longest time.Duration // the longest wait
}

// TestContention: three callers of each side contend for one lock. No two hold it at the same time, and each of them gets
// it. They contend until each has had it, for half a minute longer at most: on a busy machine, there are few grants in a
// short time.
//
// Each caller pauses between two attempts, several times as long as an acquisition and release in Java takes. Without
// pauses, a MultiLock of this library could starve: it acquires all nodes at once, or none. Redisson's MultiLock
// acquires one node after the other and keeps them, so some node would always be held.
func TestContention(t *testing.T) {
	for kind, describe := range map[Kind]func(*quorumlock.Client) *quorumlock.Lock{
		Red:   func(c *quorumlock.Client) *quorumlock.Lock { return c.RedLock(name) },
		Multi: func(c *quorumlock.Client) *quorumlock.Lock { return c.MultiLock(name) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			f := newFleet(t, 10*time.Second)
			var all []*contender
			for i := range contenders {
				all = append(all,
					goContender(fmt.Sprintf("Go %d", i), describe(f.golang())),
					javaContender(fmt.Sprintf("Java %d", i), f.caller(watchdog), Lock{Kind: kind, Name: name}))
			}
			violations := f.contend(all, f.pause(all[1]))
			for _, c := range all {
				t.Logf("%s: %d grants, waited %v at most", c.name, c.grants, c.longest.Round(time.Millisecond))
			}
			require.Zero(t, violations, "two callers held the lock at the same time")
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

func javaContender(name string, caller *Caller, lock Lock) *contender {
	return &contender{name: name, acquire: func(ctx context.Context) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return caller.Unlock(ctx, lock) }, caller.Lock(ctx, lock)
	}}
}

// pause returns the longest pause of a contender. It is a multiple of the time that c needs for an acquisition and
// release on this machine.
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
	const held, longer = time.Millisecond, 30 * time.Second
	var holders, seen, without atomic.Int64 // without is the number of contenders that have not had the lock
	without.Store(int64(len(all)))
	var running sync.WaitGroup
	failures := make(chan error, len(all))
	end := time.Now().Add(*duration)
	goesOn := func() bool {
		late := time.Since(end)
		return late < 0 || late < longer && without.Load() > 0 && !*saturate
	}
	for _, c := range all {
		running.Go(func() {
			for goesOn() {
				asked := time.Now()
				release, err := c.acquire(f.ctx)
				if err != nil {
					failures <- fmt.Errorf("%s: acquire: %w", c.name, err)
					return
				}
				c.longest = max(c.longest, time.Since(asked))
				if goesOn() {
					if c.grants == 0 {
						without.Add(-1)
					}
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
