package latch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// noSubscriptions are Subscriptions of no node.
type noSubscriptions struct{}

func (noSubscriptions) Use()                      {}
func (noSubscriptions) Done()                     {}
func (noSubscriptions) Listening() (uint64, bool) { return 0, true }

func watched() *Latches { return New(Env{Nodes: refusing(), Subscriptions: noSubscriptions{}}) }

func TestWatchersByName(t *testing.T) {
	l := watched()
	one, two, other := l.watchers.add("a"), l.watchers.add("a"), l.watchers.add("b")
	l.Counted(0, "a")
	require.Len(t, one.signals, 1)
	require.Len(t, two.signals, 1)
	require.Empty(t, other.signals)
	require.True(t, l.watchers.remove(one), "another one waits")
	require.False(t, l.watchers.remove(two), "the one of another latch does not count")
	l.SubscriptionsChanged()
	require.Len(t, other.signals, 1)
	require.False(t, l.watchers.remove(other))
	require.Empty(t, l.watchers.of)
}

// A message makes a watcher ask once: its next round learns what the message was about.
func TestWatcherAsksOnceForAMessage(t *testing.T) {
	l := watched()
	w := l.watchers.add("a")
	w.begin()
	l.Counted(0, "a")
	told, look := w.state()
	require.Equal(t, 1, told.Len())
	require.False(t, look)
	l.watchers.wake("a")
	_, look = w.state()
	require.True(t, look)
	w.begin()
	told, look = w.state()
	require.Zero(t, told)
	require.False(t, look)
	l.watchers.remove(w)
}
