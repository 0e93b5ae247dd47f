package redisproc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ReplyError is an error reply of a server, such as "NOAUTH Authentication required.".
type ReplyError string

// Error is the server's own text.
func (e ReplyError) Error() string { return string(e) }

// Exchange sends commands one after the other over a connection of its own to a server, and returns the last reply as
// text, as [Server.Command] does. Network and address are as for [net.Dial]. It is bounded by ctx.
func Exchange(ctx context.Context, network, address string, commands ...[]string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	// The end of ctx ends what waits for the server, as a deadline that has passed does.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := converse(conn, commands)
	if ended := ctx.Err(); err != nil && ended != nil {
		err = fmt.Errorf("%w (%w)", err, ended)
	}
	return text, err
}

func converse(conn io.ReadWriter, commands [][]string) (last string, err error) {
	in := bufio.NewReader(conn)
	for _, args := range commands {
		if len(args) == 0 {
			return "", errors.New("empty command")
		}
		if _, err := io.WriteString(conn, encode(args)); err != nil {
			return "", err
		}
		if last, err = readReply(in); err != nil {
			return "", err
		}
	}
	return last, nil
}

func encode(args []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// readReply reads one reply of protocol version 2, as text.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", ReplyError(rest)
	case '$', '*':
		return readSized(in, kind, rest)
	}
	return "", fmt.Errorf("unknown reply %q", line)
}

// readSized reads a string, or an array: one element a line. An error in an array, as EXEC gives, is an element and no
// error.
func readSized(in *bufio.Reader, kind byte, length string) (string, error) {
	n, err := strconv.Atoi(length)
	switch {
	case err != nil:
		return "", err
	case n < 0:
		return "(nil)", nil
	case kind == '$':
		buf := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(in, buf)
		return string(buf[:n]), err
	}
	lines := make([]string, n)
	for i := range lines {
		var refused ReplyError
		if lines[i], err = readReply(in); errors.As(err, &refused) {
			lines[i] = string(refused)
		} else if err != nil {
			return "", err
		}
	}
	return strings.Join(lines, "\n"), nil
}
