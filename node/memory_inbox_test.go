package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// inBubble runs a test on a node and an inbox of the client c in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, m *memory.Node, messages <-chan wire.Message)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := opened(t, memory.New("m", clock.Process()))
		messages := listen(t, m, "c")
		test(t, m, messages)
		require.NoError(t, m.Close())
	})
}

func TestMemoryInboxIsLostInAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memory.Node, messages <-chan wire.Message) {
		m.Stop()
		_, err := inbox.Listen(t.Context(), m, "d", false, func(wire.Message) {})
		require.ErrorIs(t, err, node.ErrUnreachable)
		lost(t, messages)
		m.Stop()
		synctest.Wait()
		assert.Empty(t, messages)
		m.Start()
		m.Start()
		again(t, messages)
		wakes(t, m, "c:1", messages)
		assert.Empty(t, messages)
	})
}

func TestMemoryInboxIsLostInACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memory.Node, messages <-chan wire.Message) {
		want(t, wire.Granted, m, acquire("o1", "a"))
		want(t, wire.Denied, m, waits("c:1", 1, "a"))
		m.Save()
		want(t, wire.Denied, m, waits("c:2", 2, "a"))
		m.Crash()
		resubscribed(t, messages)
		want(t, wire.Released, opened(t, m), release("o1", "a"))
		assert.Equal(t, "c:1", next(t, messages).Waiter)
		synctest.Wait()
		assert.Empty(t, messages, "the second has no entry")

		m.Stop()
		m.Crash()
		lost(t, messages)
		synctest.Wait()
		assert.Empty(t, messages)
		m.Start()
		again(t, messages)
	})
}

// Later operations do not change a saved state.
func TestMemorySavesQueues(t *testing.T) {
	m, c := memoryAt(t)
	messages := listen(t, m, "c")
	want(t, wire.Granted, m, acquire("o1", "a"))
	want(t, wire.Denied, m, waits("c:1", 1, "a"))
	want(t, wire.Denied, m, waits("c:2", 2, "a"))
	m.Save()
	for range 2 {
		want(t, wire.Released, m, release("o1", "a"))
		require.Equal(t, wire.Woken, next(t, messages).Kind)
		require.Equal(t, wire.Standby, next(t, messages).Kind)
		r := want(t, wire.Denied, m, fairly("c:2", 2, "a"))
		assert.Equal(t, 50*time.Millisecond, r.Holder.TTL, "who is woken is so from now on")
		c.Advance(20 * time.Millisecond)
		r = want(t, wire.Denied, m, fairly("c:2", 2, "a"))
		assert.Equal(t, 30*time.Millisecond, r.Holder.TTL)
		m.Crash()
		resubscribed(t, messages)
		opened(t, m)
	}
}

// An inbox follows Redisson again when the node is back.
func TestMemoryFollowsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := opened(t, memory.New("m", clock.Process()))
		messages := follow(t, m)
		want(t, wire.Granted, m, acquire("o1", "x{a}"))
		m.Save()
		m.Stop()
		lost(t, messages)
		m.Start()
		again(t, messages)
		want(t, wire.Released, m, announcing(release("o1", "x{a}")))
		announced(t, "x{a}", messages)
		m.Crash()
		resubscribed(t, messages)
		want(t, wire.Released, m, announcing(force("x{a}")))
		announced(t, "x{a}", messages)
		require.NoError(t, m.Close())
	})
}

func TestMemoryInboxIsLateInAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memory.Node, messages <-chan wire.Message) {
		want(t, wire.Granted, m, acquire("o1", "a"))
		want(t, wire.Denied, m, waits("c:1", 1, "a"))
		synctest.Wait()
		m.Pause()
		began := time.Now()
		time.AfterFunc(wire.DefaultTimeout/2, m.Resume)
		want(t, wire.Released, m, release("o1", "a"))
		require.Equal(t, wire.Woken, next(t, messages).Kind)
		assert.Equal(t, wire.DefaultTimeout/2, time.Since(began))

		m.Pause()
		_, err := inbox.Listen(t.Context(), m, "d", false, func(wire.Message) {})
		require.ErrorIs(t, err, node.ErrTimeout)
		m.Resume()
	})
}

// An inbox delivers each message once, and none after Close.
func TestMemoryInboxIsClosedWhileItDelivers(t *testing.T) {
	m, _ := memoryAt(t)
	entered, proceed := make(chan wire.Message, 10), make(chan struct{})
	inbox, err := inbox.Listen(t.Context(), m, "c", false, func(message wire.Message) {
		entered <- message
		<-proceed
	})
	require.NoError(t, err)
	want(t, wire.Granted, m, acquire("o1", "a", "b"))
	want(t, wire.Denied, m, waits("c:1", 1, "a", "b"))
	want(t, wire.Released, m, release("o1", "a", "b"))
	require.Equal(t, "a", next(t, entered).Name)
	closed := make(chan struct{})
	go func() {
		_ = inbox.Close()
		close(closed)
	}()
	select {
	case <-closed:
		require.Fail(t, "closed while a message was being delivered")
	default:
	}
	close(proceed)
	<-closed
}
