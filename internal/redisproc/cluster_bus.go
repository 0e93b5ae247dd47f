package redisproc

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// acceptAgain is the pause after a connection could not be accepted.
const acceptAgain = 10 * time.Millisecond

// bus is a proxy before the port at which a server of a cluster gets the messages of the others. Each connection
// carries the messages of one sender, and the answers to them.
type bus struct {
	cluster  *members
	listener net.Listener
	done     sync.WaitGroup

	mu sync.Mutex
	// senders has the sender of each open connection, "" until its first message.
	senders map[net.Conn]string
	closed  bool
}

func newBus(c *members) (*bus, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &bus{cluster: c, listener: listener, senders: make(map[net.Conn]string)}, nil
}

func (b *bus) port() int { return b.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

// serve begins to forward connections to the server.
func (b *bus) serve(target string) {
	b.done.Go(func() {
		for {
			conn, err := b.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too many open files: without its proxy, the server would be cut off for good
				time.Sleep(acceptAgain)
				continue
			}
			if b.admit(conn, "") {
				b.done.Go(func() { b.forward(conn, target) })
			}
		}
	})
}

// The header of a message has the id of its sender.
const (
	senderFrom = 40
	senderTo   = senderFrom + 40
)

// forward passes one connection on, unless its sender or the server is cut off.
func (b *bus) forward(conn net.Conn, target string) {
	defer b.forget(conn)
	header := make([]byte, senderTo)
	if _, err := io.ReadFull(conn, header); err != nil {
		return
	}
	sender := string(header[senderFrom:])
	if !b.admit(conn, sender) || b.cluster.isCutOff(sender, b) {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	b.done.Go(func() {
		defer b.forget(conn)
		_, _ = io.Copy(conn, server)
	})
	defer func() { _ = server.Close() }()
	if _, err := server.Write(header); err == nil {
		_, _ = io.Copy(server, conn)
	}
}

// admit records the sender of a connection, and reports whether the proxy is open.
func (b *bus) admit(conn net.Conn, sender string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		_ = conn.Close()
		return false
	}
	b.senders[conn] = sender
	return true
}

func (b *bus) forget(conn net.Conn) {
	_ = conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.senders, conn)
}

// sever closes the connections of some senders.
func (b *bus) sever(which func(sender string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn, sender := range b.senders {
		if which(sender) {
			_ = conn.Close()
		}
	}
}

func (b *bus) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	_ = b.listener.Close()
	b.sever(func(string) bool { return true })
	b.done.Wait()
}
