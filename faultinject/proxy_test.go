package faultinject_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
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
	return proxied{p, b, dial(t, p), b.accept()}
}

// ends are the sender and the receiver of a direction.
func (l proxied) ends(d faultinject.Direction) (from, to *net.TCPConn) {
	if d == faultinject.ToServer {
		return l.client, l.server
	}
	return l.server, l.client
}

func opposite(d faultinject.Direction) faultinject.Direction { return faultinject.BothWays &^ d }

func eachDirection(t *testing.T, test func(t *testing.T, d faultinject.Direction)) {
	t.Helper()
	for name, d := range map[string]faultinject.Direction{"to the server": faultinject.ToServer, "to the client": faultinject.ToClient} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

func awaitOpen(t testing.TB, p *faultinject.Proxy, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return p.Conns() == n }, patience, time.Millisecond)
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
}

func TestProxyCloses(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, l proxied){
		"idle": func(*testing.T, proxied) {},
		"with bytes under way": func(t *testing.T, l proxied) {
			l.SetLatency(faultinject.ToServer, time.Hour)
			send(t, l.client, "late")
		},
		"while cut": func(t *testing.T, l proxied) {
			l.Cut(faultinject.BothWays)
			send(t, l.client, "withheld")
			dial(t, l.Proxy)
			awaitOpen(t, l.Proxy, 2)
		},
		"with a stuck reader": func(t *testing.T, l proxied) {
			require.NoError(t, l.server.SetReadBuffer(256<<10))
			var sending sync.WaitGroup
			sending.Go(func() { _, _ = l.client.Write(randomBytes(4, 64<<20)) })
			t.Cleanup(sending.Wait)
			expectSilence(t, l.client) // time for the buffers to fill
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newProxied(t)
			prepare(t, l)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { _ = l.Close() })
			}
			wg.Wait()
			require.Zero(t, l.Conns())
			_, err := net.Dial("tcp", l.Addr())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			require.NoError(t, l.Close())
		})
	}
}

func TestProxyIsQuietAfterClose(t *testing.T) {
	l := newProxied(t)
	require.NoError(t, l.Close())
	l.Cut(faultinject.BothWays)
	l.SetLatency(faultinject.BothWays, 1)
	l.Heal()
}

func TestCutWithholdsOneDirection(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		send(t, from, "before ")
		expect(t, to, "before ")
		l.Cut(d)
		send(t, from, "during ")
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
	send(t, l.client, "question")
	send(t, l.server, "answer")
	expectSilence(t, l.server)
	expectSilence(t, l.client)
	l.Heal()
	expect(t, l.server, "question")
	expect(t, l.client, "answer")
}

// TestCutWithholdsEnds: what a process sent before its end arrives when the network heals, and then the end.
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
				if end.linger < 0 { // a reset may drop what was not read yet
					send(t, from, "last words")
				}
				require.NoError(t, from.SetLinger(end.linger))
				require.NoError(t, from.Close())
				expectSilence(t, to)
				l.Uncut(d)
				if end.linger < 0 {
					expect(t, to, "last words")
				}
				end.check(t, to)
			})
		})
	}
}

func TestCutLeavesLatency(t *testing.T) {
	l := newProxied(t)
	l.SetLatency(faultinject.ToServer, 1e6*patience)
	l.Cut(faultinject.ToServer)
	l.Uncut(faultinject.ToServer)
	send(t, l.client, "late")
	expectSilence(t, l.server)
}

func TestNewConnectionsHangInACut(t *testing.T) {
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		b := newBackend(t)
		p := startProxy(t, b.l.Addr().String())
		p.Cut(d)
		client := dial(t, p)
		send(t, client, "hello")
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
	send(t, client, "never")
	awaitOpen(t, p, 1)
	require.NoError(t, client.Close())
	awaitOpen(t, p, 0)
	p.Uncut(faultinject.ToClient)
	send(t, dial(t, p), "second")
	expect(t, b.accept(), "second")
	b.acceptsNothing()
}

func TestLatencyDelaysItsDirection(t *testing.T) {
	const latency = 30 * time.Millisecond
	eachDirection(t, func(t *testing.T, d faultinject.Direction) {
		l := newProxied(t)
		from, to := l.ends(d)
		l.SetLatency(opposite(d), time.Hour)
		l.SetLatency(d, latency)
		began := time.Now()
		send(t, from, "late")
		expect(t, to, "late")
		require.GreaterOrEqual(t, time.Since(began), latency)
		began = time.Now()
		require.NoError(t, from.CloseWrite())
		expectEnd(t, to)
		require.GreaterOrEqual(t, time.Since(began), latency)
	})
}

// TestLatencyDelaysAStreamOnce: data sent within one latency arrives after one latency. Delays one after the other
// would exceed the test's patience.
func TestLatencyDelaysAStreamOnce(t *testing.T) {
	const pieces = 200
	l := newProxied(t)
	l.SetLatency(faultinject.ToServer, 2*patience/pieces)
	for range pieces {
		send(t, l.client, "x")
		time.Sleep(100 * time.Microsecond) // so that the proxy reads it alone
	}
	expect(t, l.server, strings.Repeat("x", pieces))
}

func TestLatencyChangesForBytesUnderWay(t *testing.T) {
	for name, heal := range map[string]func(p *faultinject.Proxy){
		"to none": func(p *faultinject.Proxy) { p.SetLatency(faultinject.BothWays, 0) },
		"healing": func(p *faultinject.Proxy) { p.Heal() },
	} {
		t.Run(name, func(t *testing.T) {
			eachDirection(t, func(t *testing.T, d faultinject.Direction) {
				l := newProxied(t)
				from, to := l.ends(d)
				l.SetLatency(faultinject.BothWays, time.Hour)
				text := strings.Repeat("0123456789", 5000)
				send(t, from, text)
				expectSilence(t, to)
				heal(l.Proxy)
				expect(t, to, text)
			})
		})
	}
}

// TestChangingConditionsLoseNothing: under all conditions, bytes arrive complete and in order.
func TestChangingConditionsLoseNothing(t *testing.T) {
	l := newProxied(t)
	up, down := randomBytes(7, 1<<20), randomBytes(8, 1<<20)
	stop := make(chan struct{})
	var changing, moving sync.WaitGroup
	changing.Go(func() { changeAtRandom(l.Proxy, stop) })
	var gotUp, gotDown []byte
	moving.Go(func() { gotUp = transfer(t, l.client, l.server, up) })
	moving.Go(func() { gotDown = transfer(t, l.server, l.client, down) })
	moving.Wait()
	close(stop)
	changing.Wait()
	require.True(t, bytes.Equal(up, gotUp))
	require.True(t, bytes.Equal(down, gotDown))
}

// changeAtRandom makes changes, with at most a moment of trouble at a time.
func changeAtRandom(p *faultinject.Proxy, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(9, 9))
	for {
		d := faultinject.Direction(1 + rng.IntN(3))
		switch rng.IntN(3) {
		case 0:
			p.SetLatency(d, time.Duration(rng.IntN(int(time.Millisecond))))
		case 1:
			p.Cut(d)
		default:
			p.Heal()
		}
		select {
		case <-stop:
			p.Heal()
			return
		case <-time.After(time.Duration(rng.IntN(int(time.Millisecond)))):
		}
	}
}
