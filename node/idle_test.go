//go:build unix

package node

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	client, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// securePair returns both ends of a TLS 1.3 connection after the handshake. The server's session
// ticket is still unread in the client's socket.
func securePair(t *testing.T) (client, server *tls.Conn) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // has certificates
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	below, above := pair(t)
	client = tls.Client(below, &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS13, ClientSessionCache: tls.NewLRUClientSessionCache(1)})
	server = tls.Server(above, &tls.Config{
		Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequestClientCert, // so the ticket comes after the last message of the client
	})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	require.NoError(t, client.Handshake())
	require.NoError(t, <-shaken)
	await(t, below, socketReadable)
	return client, server
}

// await returns once the look at the socket finds this state.
func await(t *testing.T, conn net.Conn, state socketState) {
	t.Helper()
	require.Eventually(t, func() bool { return peek(conn.(syscall.Conn)) == state }, 30*time.Second, time.Millisecond)
}

func TestSoundConnections(t *testing.T) {
	client, server := pair(t)
	assert.True(t, sound(client, false))
	require.NoError(t, client.SetDeadline(time.Unix(1, 0)), "the deadline of an exchange long ago")
	assert.True(t, sound(client, false))

	_, err := server.Write([]byte("+OK\r\n"))
	require.NoError(t, err)
	await(t, client, socketReadable)
	assert.False(t, sound(client, false), "no command asked for these bytes")

	require.NoError(t, client.SetDeadline(time.Time{}))
	_, err = io.ReadFull(client, make([]byte, 5))
	require.NoError(t, err)
	assert.True(t, sound(client, false), "the look has taken nothing away")

	require.NoError(t, server.Close())
	await(t, client, socketClosed)
	assert.False(t, sound(client, false))
	require.NoError(t, client.Close())
	assert.False(t, sound(client, false), "closed on this side")
}

func TestResetConnectionIsNotSound(t *testing.T) {
	client, server := pair(t)
	require.NoError(t, server.(*net.TCPConn).SetLinger(0))
	require.NoError(t, server.Close())
	require.Eventually(t, func() bool { return !sound(client, false) }, 30*time.Second, time.Millisecond)
}

func TestConnectionWithoutASocketIsTakenForSound(t *testing.T) {
	client, server := net.Pipe()
	assert.True(t, sound(client, false))
	require.NoError(t, server.Close())
	assert.True(t, sound(client, false), "the next exchange finds out")
}

// A session ticket does not count as a surplus answer.
func TestSoundTLSConnections(t *testing.T) {
	client, server := securePair(t)
	assert.True(t, sound(client, false), "a ticket lies in the socket")
	require.Eventually(t, func() bool {
		assert.True(t, sound(client, false))
		return peek(client.NetConn().(syscall.Conn)) == socketQuiet
	}, 30*time.Second, time.Millisecond, "the look reads the ticket")

	go func() { _, _ = server.Write([]byte("+PONG\r\n")) }()
	require.NoError(t, client.SetDeadline(time.Time{}))
	answer := make([]byte, 7)
	_, err := io.ReadFull(client, answer)
	require.NoError(t, err, "the look has broken nothing")
	assert.Equal(t, "+PONG\r\n", string(answer))
	assert.True(t, sound(client, false))

	_, err = server.Write([]byte("+OK\r\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !sound(client, false) }, 30*time.Second, time.Millisecond, "no command asked for these bytes")
}

// A TLS server announces the close in a record. The node must not mistake it for a session ticket.
func TestClosedTLSConnectionIsNotSound(t *testing.T) {
	for name, closes := range map[string]func(*tls.Conn) error{
		"with a record":    (*tls.Conn).Close,
		"without a record": func(c *tls.Conn) error { return c.NetConn().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			client, server := securePair(t)
			require.NoError(t, closes(server))
			require.Eventually(t, func() bool { return !sound(client, false) }, 30*time.Second, time.Millisecond)
		})
	}
}

// BenchmarkLook measures a look at an idle connection.
func BenchmarkLook(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	defer func() { _ = client.Close() }()
	b.ReportAllocs()
	for b.Loop() {
		if !sound(client, false) {
			b.Fatal("closed")
		}
	}
}
