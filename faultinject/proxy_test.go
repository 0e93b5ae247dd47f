package faultinject_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

// patience bounds waits for expected events, so that a failure is not a hang. moment is how long a test checks for
// silence: a slow machine may hide a failure, but not cause one.
const (
	patience = 30 * time.Second
	moment   = 20 * time.Millisecond
)

// proxyBuffer is how many bytes a proxy keeps, for each direction of each connection.
const proxyBuffer = 256 << 10

// backend is the server behind a proxy: a listener whose connections the test holds.
type backend struct {
	t testing.TB
	l *net.TCPListener
}

func newBackend(t testing.TB) backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return backend{t, l.(*net.TCPListener)}
}

func (b backend) accept() *net.TCPConn {
	b.t.Helper()
	require.NoError(b.t, b.l.SetDeadline(time.Now().Add(patience)))
	conn, err := b.l.AcceptTCP()
	require.NoError(b.t, err)
	return managed(b.t, conn)
}

func (b backend) acceptsNothing() {
	b.t.Helper()
	require.NoError(b.t, b.l.SetDeadline(time.Now().Add(moment)))
	_, err := b.l.AcceptTCP()
	require.ErrorIs(b.t, err, os.ErrDeadlineExceeded)
}

func managed(t testing.TB, conn *net.TCPConn) *net.TCPConn {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

func startProxy(t testing.TB, target string) *faultinject.Proxy {
	t.Helper()
	p, err := faultinject.NewProxy(target)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func dial(t testing.TB, p *faultinject.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	return managed(t, conn.(*net.TCPConn))
}

// proxied is one connection through a proxy, with both ends.
type proxied struct {
	*faultinject.Proxy
	backend        backend
	client, server *net.TCPConn
}

func newProxied(t testing.TB) proxied {
	t.Helper()
	b := newBackend(t)
	p := startProxy(t, b.l.Addr().String())
	client := dial(t, p)
	await(t, p, func(s faultinject.ProxyStats) bool { return s.Reached == 1 })
	return proxied{p, b, client, b.accept()}
}

// ends are the sender and the receiver of a direction.
func (l proxied) ends(d faultinject.Direction) (from, to *net.TCPConn) {
	if d == faultinject.ToServer {
		return l.client, l.server
	}
	return l.server, l.client
}

func counts(s faultinject.ProxyStats, d faultinject.Direction) faultinject.ProxyBytes {
	if d == faultinject.ToServer {
		return s.ToServer
	}
	return s.ToClient
}

func opposite(d faultinject.Direction) faultinject.Direction { return faultinject.BothWays &^ d }

func eachDirection(t *testing.T, test func(t *testing.T, d faultinject.Direction)) {
	t.Helper()
	for _, d := range []faultinject.Direction{faultinject.ToServer, faultinject.ToClient} {
		t.Run(d.String(), func(t *testing.T) { test(t, d) })
	}
}

func await(t testing.TB, p *faultinject.Proxy, done func(faultinject.ProxyStats) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, p.Await(ctx, done))
}

func awaitOpen(t testing.TB, p *faultinject.Proxy, n int) {
	t.Helper()
	await(t, p, func(s faultinject.ProxyStats) bool { return s.Open == n })
}

// sendInto sends, and waits until the proxy has received the data, whether it passes or not.
func sendInto(t testing.TB, p *faultinject.Proxy, d faultinject.Direction, from net.Conn, text string) {
	t.Helper()
	want := counts(p.Stats(), d).Received + uint64(len(text))
	send(t, from, text)
	await(t, p, func(s faultinject.ProxyStats) bool { return counts(s, d).Received >= want })
}

func send(t testing.TB, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	require.NoError(t, err)
}

func expect(t testing.TB, from io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	n, err := io.ReadFull(from, got)
	require.NoErrorf(t, err, "after %q", got[:n])
	require.Equal(t, text, string(got))
}

func expectEnd(t testing.TB, from io.Reader) {
	t.Helper()
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	require.Empty(t, rest)
}

func expectReset(t testing.TB, from io.Reader) {
	t.Helper()
	_, err := io.ReadAll(from)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// expectSilence checks for a moment that no data arrives.
func expectSilence(t testing.TB, from net.Conn) {
	t.Helper()
	require.NoError(t, from.SetReadDeadline(time.Now().Add(moment)))
	n, err := from.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Zero(t, n)
	require.NoError(t, from.SetReadDeadline(time.Now().Add(patience)))
}

func randomBytes(seed byte, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // it never fails
	return data
}

// transfer sends the data and the end, and returns the data that has arrived up to the end.
func transfer(t testing.TB, from, to *net.TCPConn, data []byte) []byte {
	t.Helper()
	var wg sync.WaitGroup
	var sendErr, endErr error
	wg.Go(func() {
		_, sendErr = from.Write(data)
		endErr = from.CloseWrite()
	})
	got, err := io.ReadAll(to)
	wg.Wait()
	require.NoError(t, err)
	require.NoError(t, sendErr)
	require.NoError(t, endErr)
	return got
}

func TestProxyForwards(t *testing.T) {
	l := newProxied(t)
	up, down := randomBytes(1, 3<<20), randomBytes(2, 2<<20)

	require.True(t, bytes.Equal(up, transfer(t, l.client, l.server, up)))
	require.True(t, bytes.Equal(down, transfer(t, l.server, l.client, down)), "after the end of the other direction")
	awaitOpen(t, l.Proxy, 0)
	require.Equal(t, faultinject.ProxyStats{
		Accepted: 1,
		Reached:  1,
		ToServer: faultinject.ProxyBytes{Received: 3 << 20, Passed: 3 << 20},
		ToClient: faultinject.ProxyBytes{Received: 2 << 20, Passed: 2 << 20},
	}, l.Stats())
}

func TestProxyPassesResetsOn(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		require.NoError(t, from.SetLinger(0))
		require.NoError(t, from.Close())
		expectReset(t, to)
		awaitOpen(t, l.Proxy, 0)
	})
}

// TestProxyTellsSendersOfReceiversThatAreGone: a receiver that is gone answers with a RST, which reaches the sender
// too.
func TestProxyTellsSendersOfReceiversThatAreGone(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		require.NoError(t, to.Close())
		expectEnd(t, from)
		var err error
		for err == nil {
			_, err = from.Write([]byte("are you there?"))
		}
		// The error depends on the order in which the ends close.
		require.Truef(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE), "%v", err)
		awaitOpen(t, l.Proxy, 0)
	})
}

func TestProxyKeepsConnectionsApart(t *testing.T) {
	b := newBackend(t)
	p := startProxy(t, b.l.Addr().String())
	first := dial(t, p)
	firstServer := b.accept()
	second := dial(t, p)
	secondServer := b.accept()
	send(t, second, "two")
	send(t, first, "one")
	expect(t, firstServer, "one")
	expect(t, secondServer, "two")
	require.NoError(t, first.Close())
	expectEnd(t, firstServer)
	send(t, secondServer, "still here")
	expect(t, second, "still here")
}

func TestProxyRefusesAnInvalidTarget(t *testing.T) {
	_, err := faultinject.NewProxy("no port")
	require.ErrorContains(t, err, "faultinject: proxy: target")
}

func TestProxyResetsClientsOfATargetThatIsDown(t *testing.T) {
	b := newBackend(t)
	p := startProxy(t, b.l.Addr().String())
	require.NoError(t, b.l.Close())
	p.Cut(faultinject.BothWays)
	client := dial(t, p)
	p.Uncut(faultinject.BothWays)
	expectReset(t, client)
	awaitOpen(t, p, 0)
	require.Equal(t, faultinject.ProxyStats{Accepted: 1, Unreached: 1}, p.Stats())
}

func TestProxyCloses(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, l proxied){
		"idle": func(*testing.T, proxied) {},
		"with bytes under way": func(t *testing.T, l proxied) {
			l.SetLatency(faultinject.ToServer, time.Hour, 0)
			sendInto(t, l.Proxy, faultinject.ToServer, l.client, "late")
		},
		"while cut": func(t *testing.T, l proxied) {
			l.Cut(faultinject.BothWays)
			sendInto(t, l.Proxy, faultinject.ToServer, l.client, "withheld")
			dial(t, l.Proxy)
			awaitOpen(t, l.Proxy, 2)
		},
		"with a stuck reader": func(t *testing.T, l proxied) { stick(t, l) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newProxied(t)
			prepare(t, l)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { _ = l.Close() })
			}
			wg.Wait()
			require.Zero(t, l.Stats().Open)
			_, err := net.Dial("tcp", l.Addr())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			require.NoError(t, l.Close())
		})
	}
}

func TestProxyIsQuietAfterClose(t *testing.T) {
	l := newProxied(t)
	require.NoError(t, l.Close())
	l.Reset()
	l.Cut(faultinject.BothWays)
	l.SetLatency(faultinject.BothWays, 1, 1)
	l.Heal()
	err := l.Await(t.Context(), func(faultinject.ProxyStats) bool { return false })
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	l := newProxied(t)
	sendInto(t, l.Proxy, faultinject.ToServer, l.client, "12345")
	expect(t, l.server, "12345")
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	err := l.Await(ctx, func(s faultinject.ProxyStats) bool { return s.ToServer.Passed > 5 })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "ToServer:{Received:5 ")
}

// stick makes the client send more than all buffers hold. The server does not read, so stick waits until the
// proxy is stuck in a write to the server. It returns the client's data, and ignores errors of the sending.
func stick(t testing.TB, l proxied) []byte {
	t.Helper()
	require.NoError(t, l.server.SetReadBuffer(256<<10))
	data := randomBytes(4, 16<<20)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = l.client.Write(data) })
	t.Cleanup(func() {
		_ = l.client.Close()
		wg.Wait()
	})
	awaitStuck(t, l)
	return data
}

// awaitStuck waits until the proxy is stuck in a write to the server.
func awaitStuck(t testing.TB, l proxied) {
	t.Helper()
	for passed := uint64(1); passed != l.Stats().ToServer.Passed; {
		await(t, l.Proxy, func(s faultinject.ProxyStats) bool {
			passed = s.ToServer.Passed
			return s.ToServer.Received-passed == proxyBuffer
		})
		expectSilence(t, l.client) // time for a buffer that was full by chance to empty
	}
}
