package faultinject

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// entrance is a listener that can be closed and opened again at the same address.
type entrance struct {
	addr  string
	admit func(*net.TCPConn)

	mu       sync.Mutex
	listener net.Listener
	ended    chan struct{} // closed when the listener's goroutine has ended
	forGood  bool
}

// open listens, unless it does already.
func (e *entrance) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.forGood {
		return fmt.Errorf("faultinject: proxy at %s: accept: %w", e.addr, net.ErrClosed)
	}
	if e.listener != nil {
		return nil
	}
	l, err := listen(e.addr)
	if err != nil {
		return fmt.Errorf("faultinject: proxy: %w", err)
	}
	if e.ended == nil { // the first time; from then on the address is read without the lock
		e.addr = l.Addr().String()
	}
	e.listener, e.ended = l, make(chan struct{})
	go e.acceptAll(l, e.ended)
	return nil
}

// close makes the system refuse connections. No connection is admitted after it has returned.
func (e *entrance) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listener == nil {
		return
	}
	_ = e.listener.Close() // fails only if closed already
	<-e.ended
	e.listener = nil
}

func (e *entrance) closeForGood() {
	e.mu.Lock()
	e.forGood = true
	e.mu.Unlock()
	e.close()
}

func (e *entrance) acceptAll(l net.Listener, ended chan<- struct{}) {
	defer close(ended)
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			e.admit(conn.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(10 * time.Millisecond) // out of file descriptors: there may be some later
		}
	}
}

// listen listens at the address, or if it is empty, at a free port of loopback below the ports for outgoing
// connections. Such a port could be lost while the proxy refuses connections, even to a client that redials and
// reaches itself.
func listen(addr string) (net.Listener, error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	const lowest, count, attempts = 10_000, 20_000, 100
	for range attempts {
		port := lowest + rand.IntN(count)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}
