package faultinject_test

import (
	"bytes"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

func TestCutWithholdsOneDirection(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		send(t, from, "before ")
		expect(t, to, "before ")

		l.Cut(d)
		sendInto(t, l.Proxy, d, from, "during ")
		require.EqualValues(t, len("before "), counts(l.Stats(), d).Passed)
		expectSilence(t, to)
		send(t, to, "back")
		expect(t, from, "back")

		l.Uncut(d)
		expect(t, to, "during ")
		send(t, from, "after")
		expect(t, to, "after")
	})
}

func TestCutBothWays(t *testing.T) {
	l := newProxied(t)
	l.Cut(faultinject.BothWays)
	sendInto(t, l.Proxy, faultinject.ToServer, l.client, "question")
	sendInto(t, l.Proxy, faultinject.ToClient, l.server, "answer")
	expectSilence(t, l.server)
	expectSilence(t, l.client)
	l.Heal()
	expect(t, l.server, "question")
	expect(t, l.client, "answer")
}

func TestCutWithholdsEnds(t *testing.T) {
	for name, end := range map[string]struct {
		linger int
		check  func(t testing.TB, from io.Reader)
	}{
		"close": {-1, expectEnd},
		"reset": {0, expectReset},
	} {
		t.Run(name, func(t *testing.T) {
			eachDirection(t, func(t *testing.T, d faultinject.Direction) {
				l := newProxied(t)
				from, to := l.ends(d)
				l.Cut(d)
				require.NoError(t, from.SetLinger(end.linger))
				require.NoError(t, from.Close())
				expectSilence(t, to)
				l.Uncut(d)
				end.check(t, to)
			})
		})
	}
}

// TestBytesOutliveTheirSender: data that a process sent before it died arrives when the network heals.
func TestBytesOutliveTheirSender(t *testing.T) {
	l := newProxied(t)
	l.Cut(faultinject.ToServer)
	sendInto(t, l.Proxy, faultinject.ToServer, l.client, "last words")
	require.NoError(t, l.client.Close())
	l.Uncut(faultinject.ToServer)
	expect(t, l.server, "last words")
	expectEnd(t, l.server)
}

func TestCutLeavesLatency(t *testing.T) {
	l := newProxied(t)
	l.SetLatency(faultinject.ToServer, 1e6*patience, 0)
	l.Cut(faultinject.ToServer)
	l.Uncut(faultinject.ToServer)
	sendInto(t, l.Proxy, faultinject.ToServer, l.client, "late")
	expectSilence(t, l.server)
}

// A cut is at a byte also where the proxy is stuck in a write: that does not go on.
func TestCutInterruptsAWrite(t *testing.T) {
	l := newProxied(t)
	data := stick(t, l)
	l.Cut(faultinject.ToServer)
	passed := l.Stats().ToServer.Passed
	got := make([]byte, len(data))
	_, err := io.ReadFull(l.server, got[:passed])
	require.NoError(t, err)
	expectSilence(t, l.server)
	l.Uncut(faultinject.ToServer)
	_, err = io.ReadFull(l.server, got[passed:])
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
}

func TestProxyKeepsNoMoreThanItsBuffer(t *testing.T) {
	l := newProxied(t)
	l.Cut(faultinject.ToServer)
	data := randomBytes(10, 16<<20)
	sendAll := make(chan error, 1)
	go func() {
		_, err := l.client.Write(data)
		sendAll <- err
	}()
	await(t, l.Proxy, func(s faultinject.ProxyStats) bool { return s.ToServer.Received >= proxyBuffer })
	expectSilence(t, l.server)
	require.EqualValues(t, proxyBuffer, l.Stats().ToServer.Received)
	l.Uncut(faultinject.ToServer)
	expect(t, l.server, string(data))
	require.NoError(t, <-sendAll)
}

func TestNewConnectionsHangInACut(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		b := newBackend(t)
		p := startProxy(t, b.l.Addr().String())
		p.Cut(d)
		client := dial(t, p)
		sendInto(t, p, faultinject.ToServer, client, "hello")
		b.acceptsNothing()
		p.Uncut(d)
		server := b.accept()
		expect(t, server, "hello")
		send(t, server, "welcome")
		expect(t, client, "welcome")
	})
}

func TestServerNeverLearnsOfClientsThatGaveUpInACut(t *testing.T) {
	b := newBackend(t)
	p := startProxy(t, b.l.Addr().String())
	p.Cut(faultinject.ToClient)
	client := dial(t, p)
	sendInto(t, p, faultinject.ToServer, client, "never")
	require.NoError(t, client.Close())
	awaitOpen(t, p, 0)
	p.Uncut(faultinject.ToClient)
	send(t, dial(t, p), "second")
	expect(t, b.accept(), "second")
	b.acceptsNothing()
}

func TestCutAfterHoldsInMidMessage(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		l.CutAfter(d, 7, faultinject.ThenHold)
		send(t, from, "abc")
		expect(t, to, "abc")
		sendInto(t, l.Proxy, d, from, "defghij")
		expect(t, to, "defg")
		expectSilence(t, to)
		require.EqualValues(t, 7, counts(l.Stats(), d).Passed)

		l.CutAfter(d, 1, faultinject.ThenHold) // byte by byte
		expect(t, to, "h")
		expectSilence(t, to)
		l.CutAfter(d, 0, faultinject.ThenHold)
		expectSilence(t, to)
		l.Uncut(d)
		expect(t, to, "ij")
	})
}

func TestCutAfterHoldsNewConnections(t *testing.T) {
	l := newProxied(t)
	l.CutAfter(faultinject.ToServer, 2, faultinject.ThenHold)
	send(t, l.client, "ab")
	expect(t, l.server, "ab")
	dial(t, l.Proxy)
	awaitOpen(t, l.Proxy, 2)
	l.backend.acceptsNothing()
}

func TestCutAfterCloses(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		l.CutAfter(d, 4, faultinject.ThenClose)
		sendInto(t, l.Proxy, d, from, "abcdefg")
		expect(t, to, "abcd")
		expectEnd(t, to)
		sendInto(t, l.Proxy, d, from, "swallowed")
		send(t, to, "the other way")
		expect(t, from, "the other way")
		require.EqualValues(t, 4, counts(l.Stats(), d).Passed)

		require.NoError(t, to.Close())
		expectEnd(t, from)
		require.NoError(t, from.Close())
		awaitOpen(t, l.Proxy, 0)
	})
}

func TestCutAfterResets(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		l.CutAfter(d, 4, faultinject.ThenReset)
		send(t, from, "abcdefg")
		got, err := io.ReadAll(to)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, "abcd"[:len(got)], string(got))
		expectReset(t, from)
		awaitOpen(t, l.Proxy, 0)
		require.EqualValues(t, 4, counts(l.Stats(), d).Passed)

		client := dial(t, l.Proxy) // it was for one connection
		server := l.backend.accept()
		send(t, client, "a new one")
		expect(t, server, "a new one")
	})
}

func TestCutAfterZeroBytesEndsTheNextSender(t *testing.T) {
	for name, c := range map[string]struct {
		then  faultinject.CutAction
		check func(t testing.TB, from io.Reader)
	}{
		"reset": {faultinject.ThenReset, expectReset},
		"close": {faultinject.ThenClose, expectEnd},
	} {
		t.Run(name, func(t *testing.T) {
			l := newProxied(t)
			idle := dial(t, l.Proxy)
			idleServer := l.backend.accept()
			l.CutAfter(faultinject.ToServer, 0, c.then)
			expectSilence(t, l.server)
			send(t, l.client, "x")
			c.check(t, l.server)
			send(t, idle, "spared")
			expect(t, idleServer, "spared")
		})
	}
}

func TestCutAfterCountsAllConnections(t *testing.T) {
	const n, conns = 1000, 4
	l := newProxied(t)
	servers := []io.Reader{l.server}
	clients := []io.Writer{l.client}
	for range conns - 1 {
		clients = append(clients, dial(t, l.Proxy))
		servers = append(servers, l.backend.accept())
	}
	l.CutAfter(faultinject.ToServer, n, faultinject.ThenHold)
	for _, c := range clients {
		send(t, c, string(make([]byte, n)))
	}
	await(t, l.Proxy, func(s faultinject.ProxyStats) bool {
		return s.ToServer.Received == conns*n && s.ToServer.Passed >= n
	})
	expectSilence(t, l.client)
	require.EqualValues(t, n, l.Stats().ToServer.Passed)
	l.Uncut(faultinject.ToServer)
	for _, s := range servers {
		expect(t, s, string(make([]byte, n)))
	}
}

// While one connection writes under a limit, another waits: the first may be about to pass the last byte.
func TestCutAfterWaitsForAWriteUnderWay(t *testing.T) {
	l := newProxied(t)
	other := dial(t, l.Proxy)
	otherServer := l.backend.accept()
	data := stick(t, l)
	l.CutAfter(faultinject.ToServer, int64(len(data)/2), faultinject.ThenReset)
	awaitStuck(t, l)
	sendInto(t, l.Proxy, faultinject.ToServer, other, "x")
	expectSilence(t, otherServer)

	got, err := io.ReadAll(l.server)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.True(t, bytes.HasPrefix(data, got))
	expect(t, otherServer, "x")
}

func TestResetEndsAllConnections(t *testing.T) {
	l := newProxied(t)
	l.Cut(faultinject.ToServer)
	sendInto(t, l.Proxy, faultinject.ToServer, l.client, "lost")
	hanging := dial(t, l.Proxy)
	awaitOpen(t, l.Proxy, 2)

	l.Reset()
	require.Zero(t, l.Stats().Open)
	expectReset(t, l.client)
	expectReset(t, l.server)
	expectReset(t, hanging)

	l.Uncut(faultinject.ToServer)
	client := dial(t, l.Proxy)
	server := l.backend.accept()
	send(t, client, "new")
	expect(t, server, "new")
}

func TestResetEndsAWrite(t *testing.T) {
	l := newProxied(t)
	stick(t, l)
	l.Reset()
	_, err := io.Copy(io.Discard, l.server)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
