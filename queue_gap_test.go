package quorumlock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// Many wait for what none of them can have, as a node is down that they need: that must not
// have each tell all others of each attempt.
func TestACrowdThatCannotHaveTheLock(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		const crowd = 40
		before := held(t, f.client().RedLock("job"))
		var watched [][]*spy
		var messages atomic.Int64
		for range crowd {
			c, spies := f.spied()
			for _, s := range spies {
				s.set(func(s *spy) { s.message = func(node.Message) bool { messages.Add(1); return true } })
			}
			watched = append(watched, spies)
			_ = acquiring(t.Context(), t, c.MultiLock("job"))
			time.Sleep(time.Millisecond)
		}
		f.stop(2)
		require.NoError(t, before.Release(t.Context()))
		time.Sleep(5 * time.Second)
		asked, told := total(watched...), messages.Load()
		time.Sleep(5 * time.Second)
		asked, told = total(watched...)-asked, messages.Load()-told
		t.Logf("in 5 s: %d acquisitions, %d messages", asked, told)
		require.LessOrEqual(t, told, int64(3*asked))
	})
}

// Two attempts of one waiter that reach a node in one batch: the first has the node, and so
// denies the second. The waiter has to learn that it gave the node back.
func TestTwoAttemptsInOneBatch(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		c, ways := f.hookedClient()
		before := held(t, f.client().RedLock("job"))
		waits := acquiring(t.Context(), t, c.MultiLock("job", "other"))
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, waits.has().Release(t.Context()))
		settled() // the inboxes are there

		f.take("other", "x", 0)
		proceed := make(chan struct{})
		var once sync.Once
		ways[2].set(func([]node.Op) { once.Do(func() { <-proceed }) }, nil)
		_, _ = c.RedLock("third").TryAcquire(t.Context()) // keeps the way to the third node busy
		waits = acquiring(t.Context(), t, c.MultiLock("job", "other"))
		require.True(t, waits.waits()) // denied by the first node; not sent to the third
		f.free("other", "x", 0)
		time.Sleep(20 * time.Millisecond) // the next attempt is under way
		require.True(t, waits.waits())
		close(proceed)
		took := f.elapsed(func() { <-waits.done })
		t.Log(took)
		require.LessOrEqual(t, took, 60*time.Millisecond)
		require.NoError(t, waits.has().Release(t.Context()))
	})
}
