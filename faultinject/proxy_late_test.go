package faultinject_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// TestDetainedBytesArriveBehindNewerOnes: also if their sender is gone, and its connection on the server too. What the client
// wrote first comes first again.
func TestDetainedBytesArriveBehindNewerOnes(t *testing.T) {
	l := newProxied(t)
	send(t, l.client, "hello,")
	expect(t, l.server, "hello,")
	deliver := l.Detain(false)
	send(t, l.client, "old")
	expectSilence(t, l.server)
	require.NoError(t, l.client.Close())
	expectEnd(t, l.server)
	require.NoError(t, l.server.Close())
	newer := dial(t, l.Proxy)
	send(t, newer, "new")
	expect(t, l.backend.accept(), "new")
	deliver()
	deliver() // changes nothing
	late := l.backend.accept()
	expect(t, late, "hello,old")
	expectEnd(t, late)
	l.backend.acceptsNothing()
}

// TestBytesArriveTwice: at once, and later on another connection. The sender notices nothing.
func TestBytesArriveTwice(t *testing.T) {
	l := newProxied(t)
	deliver := l.Detain(true)
	send(t, l.client, "one")
	expect(t, l.server, "one")
	other := dial(t, l.Proxy)
	send(t, other, "two")
	expect(t, l.backend.accept(), "two")
	deliver()
	var again []string
	for range 2 {
		late := l.backend.accept()
		text := make([]byte, 3)
		_, err := late.Read(text)
		require.NoError(t, err)
		again = append(again, string(text))
		expectEnd(t, late)
	}
	require.ElementsMatch(t, []string{"one", "two"}, again)
	send(t, l.client, "three")
	expect(t, l.server, "three")
	l.backend.acceptsNothing()
}

func TestClosedProxyDeliversNothing(t *testing.T) {
	l := newProxied(t)
	deliver := l.Detain(false)
	send(t, l.client, "old")
	require.NoError(t, l.client.CloseWrite())
	expectEnd(t, l.server) // the proxy has what was before
	require.NoError(t, l.Close())
	deliver()
	l.backend.acceptsNothing()
}

// TestRequestRunsAfterItsConnectionDied: on a real server, behind a newer request of another connection.
func TestRequestRunsAfterItsConnectionDied(t *testing.T) {
	server := redisproc.Start(t)
	p := startProxy(t, server.Addr())
	get := func() string {
		text, err := server.Command("GET", "key")
		require.NoError(t, err)
		return text
	}
	old := dial(t, p)
	send(t, old, "PING\r\n")
	expect(t, old, "+PONG\r\n")
	deliver := p.Detain(false)
	send(t, old, "SET key old\r\n")
	require.NoError(t, old.Close())
	awaitOpen(t, p, 0)
	newer := dial(t, p)
	send(t, newer, "SET key new\r\n")
	expect(t, newer, "+OK\r\n")
	require.Equal(t, "new", get())
	deliver()
	require.Eventually(t, func() bool { return get() == "old" }, patience, moment)
}
