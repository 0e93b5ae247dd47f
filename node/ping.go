package node

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// replyError is an error reply of a server, read before rueidis has the connection.
type replyError string

func (e replyError) Error() string { return string(e) }

// ping is the command that every server answers, even before authentication.
const ping = "*1\r\n$4\r\nPING\r\n"

// pingConn is a connection that sends a PING and reads the PONG before anything else. Servers of other
// protocols send surplus replies, on which rueidis panics in a goroutine of its own. pingConn also finds
// out why a server hangs up at once. It sends the PING in one write with the first command, which saves a
// round trip. If the peer is not a Redis server, pingConn reads nothing else.
//
// A command with a password waits for the PONG: Redis from 7.2 on does not answer a wrong password if an
// earlier reply is still in its buffer.
type pingConn struct {
	net.Conn
	// The writer owns sent.
	sent bool
	// pong guards the reading of the PONG, which sets refusal.
	pong    sync.Once
	refusal error
}

func (c *pingConn) Write(b []byte) (int, error) {
	if c.sent {
		return c.Conn.Write(b)
	}
	c.sent = true
	if !authenticates(b) {
		n, err := c.Conn.Write(append([]byte(ping), b...))
		return max(n-len(ping), 0), err
	}
	if _, err := io.WriteString(c.Conn, ping); err != nil {
		return 0, err
	}
	if err := c.readPong(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// authenticates reports whether commands have a password, as AUTH or in HELLO.
func authenticates(commands []byte) bool { return bytes.Contains(commands, []byte("\r\nAUTH\r\n")) }

func (c *pingConn) Read(b []byte) (int, error) {
	if err := c.readPong(); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// readPong reads the answer to the PING, once.
func (c *pingConn) readPong() error {
	c.pong.Do(func() {
		line, err := readLine(c.Conn)
		if err == nil {
			err = judgePing(line)
		}
		c.refusal = err
	})
	return c.refusal
}

// maxLine bounds a line of a server that sends no line ends.
const maxLine = 512

// readLine reads up to a line end and not a byte further.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxLine; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			break
		}
		line = append(line, b[0])
	}
	return strings.TrimSuffix(string(line), "\r"), nil
}

// judgePing returns an error unless the line answers a PING. A demand for a password is an answer, and so is
// a lack of permission: rueidis will send the password.
func judgePing(line string) error {
	text, isError := strings.CutPrefix(line, "-")
	code, _, _ := strings.Cut(text, " ")
	switch {
	case line == "+PONG", isError && (code == "NOAUTH" || code == "NOPERM"):
		return nil
	case isError:
		return replyError(strings.TrimPrefix(text, "ERR "))
	default:
		return fmt.Errorf("%w %.30q", errProtocol, line)
	}
}
