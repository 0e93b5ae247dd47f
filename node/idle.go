package node

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// A server closes connections that have been idle for a while, and so do NAT gateways and load
// balancers. The client library reads only while it waits for an answer, so it would notice with
// the next operation, which then fails. So an idle connection is looked at before it is used.

const (
	// idleAfter is how long a connection is unused before it counts as idle. The look costs a
	// system call, which operations that follow each other do not pay.
	idleAfter = time.Millisecond
	// recordTime bounds reading the TLS records that lie in the socket. Few servers send any.
	recordTime = 20 * time.Millisecond
)

// sound reports whether an idle connection can be used. It neither blocks nor sends anything. It
// refuses a connection only if the server closed it, or sent bytes without a request. It may accept
// a broken one: if the connection breaks after the look, or the system or the dialler offers no look.
// The exchange then finds out.
func sound(conn net.Conn) bool {
	secure, isTLS := conn.(*tls.Conn)
	if isTLS {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	switch peek(socket) {
	case socketQuiet:
		return true
	case socketReadable:
		return isTLS && quiet(secure)
	default:
		return false
	}
}

// quiet reads the TLS records that lie in the socket, and reports whether there is nothing for the
// client in them. A session ticket or a new key is no surplus answer, and no reason to connect again.
func quiet(conn *tls.Conn) bool {
	if err := conn.SetReadDeadline(deadline(recordTime)); err != nil {
		return false
	}
	n, err := conn.Read(make([]byte, 1))
	return n == 0 && isTimeout(err)
}

// socketState is the result of a look at a socket.
type socketState uint8

const (
	// socketQuiet has nothing to read, as an idle connection should.
	socketQuiet socketState = iota
	// socketReadable has bytes to read.
	socketReadable
	// socketClosed was closed, by the peer or by an error.
	socketClosed
)
