package redisproc

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// acceptAgain is the pause after a connection could not be accepted.
const acceptAgain = 10 * time.Millisecond

// front listens on an address that is no Redis server.
type front struct {
	listener net.Listener
	running  sync.WaitGroup

	mu sync.Mutex
	// conns are the open connections, each with the name that its function gave it.
	conns  map[net.Conn]string
	closed bool
}

func newFront() (*front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &front{listener: listener, conns: make(map[net.Conn]string)}, nil
}

func (f *front) port() int { return f.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

// serve begins to serve connections. Each closes when the function returns.
func (f *front) serve(one func(conn net.Conn)) {
	f.running.Go(func() {
		for {
			conn, err := f.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too many open files: who dials would get no answer for good
				time.Sleep(acceptAgain)
				continue
			}
			if f.name(conn, "") {
				f.running.Go(func() {
					one(conn)
					_ = conn.Close()
					f.mu.Lock()
					defer f.mu.Unlock()
					delete(f.conns, conn)
				})
			}
		}
	})
}

// name names a connection, and reports whether the front is open.
func (f *front) name(conn net.Conn, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = conn.Close()
		return false
	}
	f.conns[conn] = name
	return true
}

func (f *front) sever(which func(name string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, name := range f.conns {
		if which(name) {
			_ = conn.Close()
		}
	}
}

// close ends all connections, and waits for their functions.
func (f *front) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	_ = f.listener.Close()
	f.sever(func(string) bool { return true })
	f.running.Wait()
}

// Serve listens on an address that is no Redis server. The function serves each connection. The connection closes
// when the function returns or the test ends; the test waits for it.
func Serve(tb testing.TB, serve func(conn net.Conn)) (addr string) {
	tb.Helper()
	f, err := newFront()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.close)
	f.serve(serve)
	return f.listener.Addr().String()
}

// Relay is another address of a server. Requests go through up, and answers through down. Each returns when it cannot
// read on, which ends the connection.
func Relay(tb testing.TB, server string, up, down func(to, from net.Conn)) (addr string) {
	tb.Helper()
	return Serve(tb, func(client net.Conn) { relay(client, server, up, down) })
}

func relay(client net.Conn, server string, up, down func(to, from net.Conn)) {
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
}

// Copy is a direction of [Relay] that changes nothing.
func Copy(to, from net.Conn) { _, _ = io.Copy(to, from) }
