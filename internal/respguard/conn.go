package respguard

import (
	"net"
	"syscall"
)

// Conn is a connection to a server whose replies are checked. One goroutine at a time may read,
// and one may write, as client libraries do. The other methods come from the wrapped connection.
type Conn struct {
	net.Conn
	turns    turns
	requests requests
	replies  replies
	// rest are bytes that came and were not passed on: ready bytes that are checked, and the beginning of an element. broken
	// is set once the server has broken a rule. Only Read uses them.
	rest   []byte
	ready  int
	broken error
}

// New wraps a connection before its first command. The connection must carry plain RESP: wrap the
// TLS connection, not the socket below it. Replies that the client read before do not count.
//
// The result is a *Conn, and a [syscall.Conn] if the wrapped connection is one.
func New(conn net.Conn) net.Conn {
	c := &Conn{Conn: conn}
	c.requests.turns, c.replies.messages.turns = &c.turns, &c.turns
	if raw, ok := conn.(syscall.Conn); ok {
		return &rawConn{Conn: c, raw: raw}
	}
	return c
}

// rawConn is a Conn whose wrapped connection has a file descriptor.
type rawConn struct {
	*Conn
	raw syscall.Conn
}

// SyscallConn returns the raw connection of the wrapped one.
func (c *rawConn) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// NetConn returns the wrapped connection, as a TLS connection does. Reading from it or writing to
// it bypasses the checks and the counting.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read reads from the wrapped connection, and passes on what is checked: a line or a string once all of it is there. If a
// fragment breaks a rule, Read returns none of it, and a [Violation]: the replies in the same fragment may belong to other
// commands. On a connection that has subscribed, Read returns the bytes before the broken rule, and the Violation next.
// Every later Read returns the Violation again.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		if c.ready > 0 {
			n := copy(p, c.rest[:c.ready])
			c.rest, c.ready = append(c.rest[:0], c.rest[n:]...), c.ready-n
			return n, nil
		}
		if c.broken != nil {
			return 0, c.broken
		}
		n, err := c.Conn.Read(p)
		if n <= 0 {
			return n, err
		}
		if len(c.rest) > 0 {
			c.rest = append(c.rest, p[:n]...)
			c.ready, c.broken = c.check(c.rest)
		} else {
			var whole int
			whole, c.broken = c.check(p[:n])
			c.rest = append(c.rest, p[whole:n]...)
			if whole > 0 {
				return whole, err
			}
		}
		if c.ready == 0 && c.broken == nil && err != nil {
			return 0, err
		}
	}
}

// check returns how many bytes may be passed on, and the rule that is broken behind them.
func (c *Conn) check(p []byte) (whole int, err error) {
	whole, err = c.replies.scan(p)
	if err != nil && !c.turns.subscribed.Load() {
		whole = 0
	}
	return whole, err
}

// Write counts the commands that end in p, and then writes p.
func (c *Conn) Write(p []byte) (int, error) {
	c.requests.scan(p)
	return c.Conn.Write(p)
}
