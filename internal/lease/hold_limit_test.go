package lease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A lease ends at its MaxHold by local time, even if the tick that ends it is late.
func TestHoldLimitEndsLeaseOnTime(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		l := c.acquire(t, c.limited(time.Second))
		synctest.Wait()
		c.asleep(true)
		time.Sleep(time.Second - 1)
		require.NoError(t, l.Err())
		have, _ := l.Backing()
		require.Equal(t, 3, have)

		time.Sleep(time.Nanosecond)
		require.Equal(t, ErrHoldLimit, l.Err())
		require.Equal(t, ErrHoldLimit, context.Cause(l.Context()), "of a context that is asked for now, too")
		require.Equal(t, c.engine.Clock.Now(), l.Expiry())
		have, _ = l.Backing()
		require.Zero(t, have)
		require.ErrorIs(t, extend(t.Context(), l), ErrHoldLimit)
		ok, _ := l.AddHandle(false)
		require.False(t, ok, "nothing nests")

		time.Sleep(2 * testTTL)
		require.Equal(t, ErrHoldLimit, l.Err(), "the reason stays, though the TTL is over too by now")
		require.Equal(t, ErrHoldLimit, release(l))
		require.Zero(t, c.keys())
		c.asleep(false)
		synctest.Wait()
		require.Equal(t, []error{ErrHoldLimit}, c.ended)
	})
}

func TestLateTickReportsHoldLimit(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		l := c.acquire(t, c.limited(time.Second))
		ctx := l.Context()
		synctest.Wait()
		c.asleep(true)
		time.Sleep(2 * testTTL)
		c.asleep(false)
		c.engine.scheduler.run()
		require.Equal(t, ErrHoldLimit, context.Cause(ctx))
	})
}

// The TTL of a Fixed lease may expire before its MaxHold.
func TestExpiryBeforeHoldLimit(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		s := c.limited(time.Minute)
		s.Fixed = true
		l := c.acquire(t, s)
		synctest.Wait()
		c.asleep(true)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, l.Err(), ErrLost)
		require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
		c.asleep(false)
	})
}

// The client releases a leaked lease on the nodes, and does not hand it over. The user of the lease
// may still be at work.
func TestLeakedLeaseIsNotHandedOver(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		c.heir = c.majority("job")
		l := c.acquire(t, c.majority("job"))
		l.Leak() // The garbage collector calls this.
		<-l.Context().Done()
		require.ErrorIs(t, l.Err(), ErrLeaked)
		require.Empty(t, c.heirs)
		require.Zero(t, c.keys())
	})
}

// A holder can leak a lease that was handed over, like any other.
func TestLeakAfterHandover(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		c.heir = c.majority("job")
		first := c.acquire(t, c.majority("job"))
		require.NoError(t, release(first))
		next := c.heirs[0]
		require.Same(t, first.Grant(), next.Grant())
		next.Leak()
		<-next.Context().Done()
		require.ErrorIs(t, next.Err(), ErrLeaked)
		require.ErrorIs(t, first.Err(), ErrReleased)
		require.Zero(t, c.keys())
	})
}

// The end of a lease is told before the next waiter has the next one. This holds however slow the
// former holder is.
func TestEndIsReportedBeforeHandover(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		c.heir, c.handedOver = c.limited(time.Hour), make(chan struct{}, 1)
		first := c.acquire(t, c.majority("job"))
		c.engine.scheduler.mu.Lock() // The former holder needs this mutex, as the limits differ.
		returned := make(chan error, 1)
		go func() { returned <- release(first) }()
		<-c.handedOver
		require.Empty(t, returned)
		require.Equal(t, []string{"ended", "handed over"}, c.story)
		c.engine.scheduler.mu.Unlock()
		require.NoError(t, <-returned)
	})
}

// The hold limit applies to each holder. A waiter may be handed the lease at the instant of the
// limit. It keeps the lease for as long as its own limit allows.
func TestHandoverAtTheHoldLimit(t *testing.T) {
	handed := 0
	inside(t, 1, func(t *testing.T, c *client) {
		c.heir = c.majority("job")
		for range 1500 {
			first := c.acquire(t, c.limited(time.Millisecond))
			c.heirs = nil
			c.asleep(true)
			time.Sleep(time.Millisecond)
			var both sync.WaitGroup
			both.Go(func() { first.grant.onDue(0) })
			both.Go(func() { _ = release(first) })
			for range 2 {
				both.Go(func() { _, _ = first.Backing() }) // This adds contention.
			}
			both.Wait()
			c.asleep(false)
			synctest.Wait()
			for _, next := range c.heirs {
				handed++
				require.ErrorIs(t, first.Err(), ErrReleased)
				require.NoError(t, next.Err())
				c.heir = nil
				require.NoError(t, release(next))
				c.heir = c.majority("job")
			}
			require.Zero(t, c.keys())
		}
	})
	t.Logf("handed over %d times", handed)
}

// A lease that is dropped without a release keeps the lock for the rest of its MinHold too.
func TestMinHoldOfALeakedLease(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *client) {
		s := c.majority("job")
		s.MinHold, s.HandOver = 8*time.Second, false
		l := c.acquire(t, s)
		l.Leak() // The garbage collector calls this.
		<-l.Context().Done()
		require.ErrorIs(t, l.Err(), ErrLeaked)
		time.Sleep(8*time.Second - (c.engine.Clock.Now() - l.GrantedAt()) - 1)
		require.Equal(t, 3, c.keys())
		time.Sleep(time.Second)
		require.Zero(t, c.keys())
		require.Equal(t, []error{ErrLeaked}, c.ended)
	})
}
