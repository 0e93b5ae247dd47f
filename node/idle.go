package node

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// Servers, NAT gateways and load balancers may close connections that have been idle for a while. rueidis
// reads only while it waits for a reply. So it notices a closed connection only when the next operation
// fails. Therefore an idle connection is checked before it is used.

const (
	// idleAfter is how long a connection is unused before it counts as idle. The check costs a system call,
	// which operations in quick succession do not pay.
	idleAfter = time.Millisecond
	// recordTime bounds the time to read TLS records from the socket. Few servers send records outside a reply.
	recordTime = 20 * time.Millisecond
)

// sound reports whether an idle connection can be used. It sends no command. It waits for at most
// recordTime, and only if TLS records have arrived. It refuses a connection that is closed or has failed, or
// that holds bytes that no request asked for. It may accept a broken connection, if that breaks after the
// check, or if the system or the dialler allows no check. The exchange then fails.
//
// If watched is set, a goroutine of rueidis reads the connection and its TLS records, so sound must not.
func sound(conn net.Conn, watched bool) bool {
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
		return isTLS && (watched || quiet(secure))
	default:
		return false
	}
}

// quiet reads the TLS records in the socket, and reports whether they hold no bytes for the client. A session
// ticket or a new key is not a surplus reply, and no reason to connect again.
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
	// socketQuiet means that there is nothing to read, as it should be.
	socketQuiet socketState = iota
	// socketReadable means that there are bytes to read.
	socketReadable
	// socketClosed means that the peer or an error closed it.
	socketClosed
)
