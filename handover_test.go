package quorumlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// inLine queues two waiters for a lock. The first of them gets the lock, with a block of tokens.
func inLine(t *testing.T, l *Lock, next *Lock) (first *Lease, second <-chan *Lease) {
	t.Helper()
	before, err := l.TryAcquire(t.Context())
	require.NoError(t, err)
	wait := func(l *Lock) <-chan *Lease {
		got := make(chan *Lease, 1)
		go func() {
			lease, err := l.Acquire(context.Background())
			assert.NoError(t, err)
			got <- lease
		}()
		synctest.Wait()
		return got
	}
	one, two := wait(l), wait(next)
	require.NoError(t, before.Release(t.Context()))
	return <-one, two
}

// The client releases a leaked lease on the nodes, and does not hand it over. The user of the lease
// may still be at work.
func TestALeakedLeaseIsNotHandedOver(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		first, second := inLine(t, c.RedLock("job"), c.RedLock("job"))
		onLeak(first.lease) // The garbage collector calls this.
		next := <-second
		require.ErrorIs(t, first.lease.err(), ErrLeaked)
		require.NotEqual(t, first.Owner(), next.Owner())
		require.Greater(t, next.Token(), first.Token())
		require.NoError(t, next.Release(t.Context()))
	})
}

// A holder can leak a lease that was handed over, like any other.
func TestAHandedOverLeaseIsLeaked(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, m []*node.Memory) {
		first, second := inLine(t, c.RedLock("job"), c.RedLock("job"))
		require.NoError(t, first.Release(t.Context()))
		next := <-second
		require.Equal(t, first.Owner(), next.Owner())
		onLeak(next.lease)
		<-next.lease.context().Done()
		require.ErrorIs(t, next.Err(), ErrLeaked)
		require.ErrorIs(t, first.Err(), ErrReleased)
		require.Zero(t, keys(m...))
	})
}

// Hooks learn of the end of a lease before they learn of the next one. This holds however slow the
// former holder is.
func TestTheEndIsToldBeforeTheHandover(t *testing.T) {
	var story []string
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		limited := c.RedLock("job").With(LockOptions{MaxHold: time.Hour})
		first, second := inLine(t, c.RedLock("job"), limited)
		synctest.Wait()
		story = nil
		c.scheduler.mu.Lock() // The former holder needs this mutex, as the limits differ.
		go func() { _ = first.Release(context.Background()) }()
		next := <-second
		c.scheduler.mu.Unlock()
		synctest.Wait()
		require.Equal(t, []string{"ended", "handed over"}, story)
		require.NoError(t, next.Release(t.Context()))
	}, func(cfg *Config) {
		cfg.Hooks.Acquired = func(e AcquiredEvent) {
			if e.HandedOver {
				story = append(story, "handed over")
			} else {
				story = append(story, "acquired")
			}
		}
		cfg.Hooks.Ended = func(EndedEvent) { story = append(story, "ended") }
	})
}

// The hold limit applies to each holder. A waiter may be handed the lease at the instant of the
// limit. It keeps the lease for as long as its own limit allows.
func TestAHandoverInTheInstantOfTheHoldLimit(t *testing.T) {
	handed := 0
	inside(t, 1, func(t *testing.T, c *Client, _ []*node.Memory) {
		for range 1500 {
			limited := c.RedLock("job").With(LockOptions{MaxHold: time.Millisecond})
			first, second := inLine(t, limited, c.RedLock("job"))
			h := first.lease.grant
			asleep(c, true)
			time.Sleep(time.Millisecond)
			var both sync.WaitGroup
			both.Go(func() { h.onDue(0) })
			both.Go(func() { _ = first.Release(context.Background()) })
			for range 2 {
				both.Go(func() { _, _ = first.Backing() }) // This adds contention.
			}
			both.Wait()
			asleep(c, false)
			next := <-second
			if next.Owner() == first.Owner() {
				handed++
				require.ErrorIs(t, first.Err(), ErrReleased)
			}
			synctest.Wait()
			require.NoError(t, next.Err())
			require.NoError(t, next.Release(t.Context()))
		}
	})
	t.Logf("handed over %d times", handed)
}
