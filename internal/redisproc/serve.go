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

// Front listens on an address that is no Redis server. See [Serve].
type Front struct {
	listener net.Listener
	running  sync.WaitGroup

	mu sync.Mutex
	// conns are the open connections, each with the name that its function gave it.
	conns  map[net.Conn]string
	one    func(conn net.Conn)
	closed bool
}

func newFront() (*Front, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Front{listener: listener, conns: make(map[net.Conn]string)}, nil
}

// Addr returns the address as host:port.
func (f *Front) Addr() string { return f.listener.Addr().String() }

func (f *Front) port() int { return f.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

// Serve serves new connections with this function. Open ones keep theirs.
func (f *Front) Serve(one func(conn net.Conn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.one = one
}

// serve begins to serve connections. Each closes when the function returns.
func (f *Front) serve(one func(conn net.Conn)) {
	f.Serve(one)
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
			if one := f.name(conn, ""); one != nil {
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

// name names a connection, and returns what serves it, or nil if the front is closed.
func (f *Front) name(conn net.Conn, name string) func(conn net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = conn.Close()
		return nil
	}
	f.conns[conn] = name
	return f.one
}

// Keep has another connection closed by Sever and at the end of the test.
func (f *Front) Keep(conn net.Conn) { f.name(conn, "") }

// Sever closes all connections.
func (f *Front) Sever() { f.sever(func(string) bool { return true }) }

func (f *Front) sever(which func(name string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn, name := range f.conns {
		if which(name) {
			_ = conn.Close()
		}
	}
}

// close ends all connections, and waits for their functions.
func (f *Front) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	_ = f.listener.Close()
	f.Sever()
	f.running.Wait()
}

// Serve listens on an address that is no Redis server. The function serves each connection. The connection closes
// when the function returns or the test ends; the test waits for it.
func Serve(tb testing.TB, serve func(conn net.Conn)) *Front {
	tb.Helper()
	f, err := newFront()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.close)
	f.serve(serve)
	return f
}

// Relay is another address of a server. Requests go through up, and answers through down. Each returns when it cannot
// read on, which ends the connection.
func Relay(tb testing.TB, server string, up, down func(to, from net.Conn)) *Front {
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

// Forward returns a function for [Serve] that passes a connection on to a server.
func Forward(server string) func(conn net.Conn) {
	return func(client net.Conn) { relay(client, server, Copy, Copy) }
}

// Copy is a direction of [Relay] that changes nothing.
func Copy(to, from net.Conn) { _, _ = io.Copy(to, from) }
