package faultinject_test

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkProxy compares a connection through an idle proxy with a direct one: round trips
// of one byte, and a stream.
func BenchmarkProxy(b *testing.B) {
	for _, way := range []string{"direct", "proxy"} {
		b.Run("pingpong/"+way, func(b *testing.B) {
			client, server := connect(b, way == "proxy")
			go func() { _, _ = io.Copy(onlyWriter{server}, server) }()
			message := make([]byte, 1)
			for b.Loop() {
				_, err := client.Write(message)
				require.NoError(b, err)
				_, err = io.ReadFull(client, message)
				require.NoError(b, err)
			}
		})
		b.Run("stream/"+way, func(b *testing.B) {
			const piece = 64 << 10
			client, server := connect(b, way == "proxy")
			go func() {
				data := make([]byte, piece)
				for {
					if _, err := server.Write(data); err != nil {
						return
					}
				}
			}()
			data := make([]byte, piece)
			b.SetBytes(piece)
			for b.Loop() {
				_, err := io.ReadFull(client, data)
				require.NoError(b, err)
			}
		})
	}
}

// onlyWriter keeps io.Copy from splicing in the kernel.
type onlyWriter struct{ io.Writer }

func connect(b *testing.B, proxied bool) (client, server *net.TCPConn) {
	b.Helper()
	end := newBackend(b)
	addr := end.l.Addr().String()
	if proxied {
		addr = startProxy(b, addr).Addr()
	}
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	return managed(b, conn.(*net.TCPConn)), end.accept()
}
