package servertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// conn is a client's plain connection. Commands are lines of words. A reply is its first line or, for a string, the
// line with its text.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &conn{c, bufio.NewReader(c)}
}

func (c *conn) send(t *testing.T, line string) {
	t.Helper()
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(patience)))
	_, err := fmt.Fprintf(c, "%s\r\n", line)
	require.NoError(t, err)
}

// receive returns the next reply.
func (c *conn) receive(t *testing.T) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	reply, err := c.in.ReadString('\n')
	require.NoError(t, err)
	if strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, "$-1") {
		reply, err = c.in.ReadString('\n')
		require.NoError(t, err)
	}
	return strings.TrimSpace(reply)
}

func (c *conn) ask(t *testing.T, line string) string {
	t.Helper()
	c.send(t, line)
	return c.receive(t)
}

// requireSilence requires that nothing arrives, including a reset or an end.
func (c *conn) requireSilence(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(silence)))
	_, err := c.in.Peek(1)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
}

func (c *conn) requireBroken(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	_, err := c.in.Peek(1)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// refused reports whether a new connection is refused, or ends without an answer.
func refused(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return true
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprint(c, "PING\r\n")
	_, err = bufio.NewReader(c).ReadByte()
	return err != nil && !os.IsTimeout(err)
}
