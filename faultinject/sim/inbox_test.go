package sim

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// listening is a client that listens to a server, and keeps the messages in the order of arrival.
type listening struct {
	*testing.T
	world  *world
	server *server
	link   *link
	inbox  wire.Inbox

	mu  sync.Mutex
	got []wire.Message
}

// listen runs a test in a bubble where messages take a millisecond or two.
func listen(t *testing.T, test func(l *listening)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &Case{Nodes: []Clock{{Rate: 1}}, Clients: []Clock{{Rate: 1}}, Settings: make([]Settings, 1), Timeout: ttl / 10, Opened: true}
		c.Weather = Weather{Least: time.Millisecond, Most: 2 * time.Millisecond}
		w := newWorld(c, false)
		w.open(w.servers[0].node())
		w.paths, w.processes = [][]*path{newPaths(1)}, []*process{nil}
		w.start(0)
		l := &listening{T: t, world: w, server: w.servers[0]}
		l.link = newLink(w.processes[0], l.server, w.paths[0][0], 1)
		inbox, err := l.link.Listen(t.Context(), "c", false, l.keep)
		require.NoError(t, err)
		l.inbox = inbox
		t.Cleanup(func() {
			require.NoError(t, inbox.Close())
			w.Wait()
			require.Empty(t, l.server.subscribers())
		})
		test(l)
	})
}

func (l *listening) keep(m wire.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, m)
}

func (l *listening) messages() []wire.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

// after lets time pass, and checks the kinds of all messages so far.
func (l *listening) after(d time.Duration, kinds ...wire.MessageKind) {
	l.Helper()
	time.Sleep(d)
	synctest.Wait()
	var got []wire.MessageKind
	for _, m := range l.messages() {
		got = append(got, m.Kind)
	}
	require.Equal(l, kinds, got)
}

// do runs an operation on the server itself.
func (l *listening) do(op wire.Op) wire.Reply {
	op.Names, op.TTL, op.Limits, op.Token = []string{"a"}, ttl, (&Case{}).limits(), uint64(l.world.clock.Wall().UnixMicro())
	reply := make([]wire.Reply, 1)
	l.server.node().Do(l.Context(), []wire.Op{op}, reply)
	return reply[0]
}

// wake queues a waiter of the client and releases the lock. It reports whether the waiter's entry remains, because
// the client listened.
func (l *listening) wake() (heard bool) {
	l.Helper()
	waiter := wire.Waiter{ID: "c:1", Ticket: 1, Keep: 10 * ttl}
	require.Equal(l, wire.Granted, l.do(wire.Op{Kind: wire.Acquire, Owner: "o:1"}).Outcome)
	require.Equal(l, wire.Denied, l.do(wire.Op{Kind: wire.Acquire, Owner: "c:2", Waiter: waiter}).Outcome)
	require.Equal(l, wire.Released, l.do(wire.Op{Kind: wire.Release, Owner: "o:1"}).Outcome)
	return l.do(wire.Op{Kind: wire.Leave, Waiter: waiter}).Outcome == wire.Released
}

func (l *listening) applyFault(fault faultinject.Fault, begin bool) {
	l.link.path.applyFault(faultinject.Step{Fault: fault}, begin)
}

const noticed = keepalive + nodeBound + 10*time.Millisecond

func TestMessagesTakeTheirTime(t *testing.T) {
	listen(t, func(l *listening) {
		require.True(l, l.wake())
		l.after(0)
		l.after(2*time.Millisecond+time.Microsecond, wire.Woken)
		got := l.messages()[0]
		require.Equal(l, wire.Message{Kind: wire.Woken, Waiter: "c:1", Name: "a", Fence: got.Fence}, got)
		require.NotZero(l, got.Fence)
		l.after(10*ttl, wire.Woken)
	})
}

func TestFrozenProcessGetsMessagesLater(t *testing.T) {
	listen(t, func(l *listening) {
		l.link.process.freezeNow()
		require.True(l, l.wake())
		l.after(3 * ttl)
		l.link.process.thaw()
		l.after(time.Millisecond, wire.Woken)
		l.after(ttl, wire.Woken)
	})
}

func TestCutLosesSubscription(t *testing.T) {
	for _, fault := range []faultinject.Fault{faultinject.Part, faultinject.Mute, faultinject.Deafen} {
		t.Run(string(fault), func(t *testing.T) {
			listen(t, func(l *listening) {
				l.applyFault(fault, true)
				l.after(noticed, wire.Lost)
				require.True(l, l.wake(), "the server does not know yet")
				l.after(noticed, wire.Lost)
				l.applyFault(fault, false)
				l.after(longestWait+10*time.Millisecond, wire.Lost, wire.Resubscribed)
				require.True(l, l.wake())
				l.after(3*time.Millisecond, wire.Lost, wire.Resubscribed, wire.Woken)
				require.Len(l, l.server.subscribers(), 1)
			})
		})
	}
}

func TestShortCutOnlyDelays(t *testing.T) {
	listen(t, func(l *listening) {
		l.applyFault(faultinject.Mute, true)
		require.True(l, l.wake())
		l.after(keepalive / 2)
		l.applyFault(faultinject.Mute, false)
		l.after(3*time.Millisecond, wire.Woken)
		l.after(ttl, wire.Woken)
	})
}

func TestSubscriptionsEndWithTheServer(t *testing.T) {
	listen(t, func(l *listening) {
		l.server.node().Save()
		l.server.begin(faultinject.Stop)
		require.Empty(l, l.server.subscribers())
		l.after(ttl, wire.Lost)
		l.server.end(faultinject.Stop)
		l.after(longestWait+10*time.Millisecond, wire.Lost, wire.Resubscribed)
	})
}

func TestHungServerIsNoticed(t *testing.T) {
	listen(t, func(l *listening) {
		l.server.begin(faultinject.Pause)
		l.after(noticed, wire.Lost)
		require.Len(l, l.server.subscribers(), 1)
		l.server.end(faultinject.Pause)
		l.after(ttl, wire.Lost, wire.Resubscribed)
		require.Len(l, l.server.subscribers(), 1)
	})
}

func TestDeadProcessGetsNoMessages(t *testing.T) {
	listen(t, func(l *listening) {
		l.link.process.kill()
		l.after(3 * ttl)
		require.False(l, l.wake())
	})
}

func TestClosedInboxGetsNoMessages(t *testing.T) {
	listen(t, func(l *listening) {
		require.NoError(l, l.inbox.Close())
		l.after(3 * time.Millisecond)
		require.False(l, l.wake())
	})
}

func TestLostMessageEndsSubscription(t *testing.T) {
	listen(t, func(l *listening) {
		l.world.c.Weather.Lose = 1
		require.True(l, l.wake())
		synctest.Wait()
		l.world.c.Weather.Lose = 0
		require.True(l, l.wake(), "the server does not know yet")
		l.after(noticed+longestWait, wire.Lost, wire.Resubscribed)
		require.Len(l, l.server.subscribers(), 1)
	})
}

// TestLateSubscription: a request that arrives after its client stopped waiting leaves no subscription.
func TestLateSubscription(t *testing.T) {
	listen(t, func(l *listening) {
		l.applyFault(faultinject.Part, true)
		_, err := l.link.Listen(l.Context(), "d", false, func(wire.Message) { l.Error("it was never confirmed") })
		require.ErrorIs(l, err, node.ErrTimeout)
		l.applyFault(faultinject.Part, false)
		l.after(ttl) // the first subscription has come through
		require.Len(l, l.server.subscribers(), 1)
	})
}
