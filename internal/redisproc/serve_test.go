package redisproc

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServeEndsWithTheTest(outer *testing.T) {
	ended := false
	outer.Run("a connection that is served", func(t *testing.T) {
		addr := Serve(t, func(conn net.Conn) {
			Copy(conn, conn)
			ended = true
		}).Addr()
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		outer.Cleanup(func() { _ = conn.Close() }) // too late to be what ends it
		_, err = io.WriteString(conn, "hello")
		require.NoError(t, err)
		back := make([]byte, 5)
		_, err = io.ReadFull(conn, back)
		require.NoError(t, err)
		assert.Equal(t, "hello", string(back))
	})
	assert.True(outer, ended)
}

func TestRelay(t *testing.T) {
	server := Start(t)
	addr := Relay(t, server.Addr(), Copy, Copy).Addr()
	require.NoError(t, pingTCP(addr, commandTimeout))

	deaf := Relay(t, server.Addr(), func(_, client net.Conn) { _, _ = io.Copy(io.Discard, client) }, Copy).Addr()
	require.Error(t, pingTCP(deaf, 50*time.Millisecond))
	server.Kill()
	require.Error(t, pingTCP(addr, commandTimeout), "the connection is closed")
}
