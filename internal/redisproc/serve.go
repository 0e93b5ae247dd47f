package redisproc

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// Serve listens on an address that is no Redis server. The function serves each connection. The connection closes
// when the function returns or the test ends; the test waits for it.
func Serve(tb testing.TB, serve func(conn net.Conn)) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	tb.Cleanup(func() {
		_ = listener.Close()
		end()
		running.Wait()
	})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				serve(conn)
				_ = conn.Close()
			})
		}
	})
	return listener.Addr().String()
}

// Relay is another address of a server. Requests go through up, and answers through down. Each returns when it cannot
// read on, which ends the connection.
func Relay(tb testing.TB, server string, up, down func(to, from net.Conn)) (addr string) {
	tb.Helper()
	return Serve(tb, func(client net.Conn) {
		conn, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		var answers sync.WaitGroup
		answers.Go(func() {
			down(client, conn)
			_ = client.Close()
		})
		up(conn, client)
		_ = conn.Close()
		answers.Wait()
	})
}

// Copy is a direction of [Relay] that changes nothing.
func Copy(to, from net.Conn) { _, _ = io.Copy(to, from) }
