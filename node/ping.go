package node

import (
	"fmt"
	"io"
	"net"
	"strings"
)

// replyError is an error reply of a server, read before rueidis has the connection.
type replyError string

func (e replyError) Error() string { return string(e) }

// ping is the command that every server answers, also to strangers.
const ping = "*1\r\n$4\r\nPING\r\n"

// pingConn is a connection that asks the server for a PONG, and reads it before anything else: rueidis
// panics, in a goroutine of its own, on surplus answers, and servers of other protocols give such. The
// pingConn also finds out why a server hangs up at once. It sends the PING in one write with the
// first command, which saves a round trip. If no Redis server answers, it reads nothing else.
type pingConn struct {
	net.Conn
	// knocked belongs to the writer, the others to the reader.
	sent, answered bool
	refusal        error
}

func (c *pingConn) Write(b []byte) (int, error) {
	if c.sent {
		return c.Conn.Write(b)
	}
	c.sent = true
	n, err := c.Conn.Write(append([]byte(ping), b...))
	return max(n-len(ping), 0), err
}

func (c *pingConn) Read(b []byte) (int, error) {
	if !c.answered {
		c.answered, c.refusal = true, c.readPong()
	}
	if c.refusal != nil {
		return 0, c.refusal
	}
	return c.Conn.Read(b)
}

// hear reads the answer to the PING.
func (c *pingConn) readPong() error {
	line, err := readLine(c.Conn)
	if err != nil {
		return err
	}
	return judgePing(line)
}

// maxLine bounds a line of a server that has no line ends.
const maxLine = 512

// readLine reads up to a line end and not a byte more.
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

// judgePing says what the answer to a PING means. A demand for a password is an answer, and
// so is a lack of permission; rueidis will present the password.
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
