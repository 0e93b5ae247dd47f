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

// reply is one parsed reply: a scalar, or an array of replies.
type reply struct {
	scalar string
	elems  []reply
	array  bool
}

func (r reply) text() string {
	if !r.array {
		return r.scalar
	}
	lines := make([]string, 0, len(r.elems))
	for _, e := range r.elems {
		lines = append(lines, e.text())
	}
	return strings.Join(lines, "\n")
}

// Exchange sends one command over a fresh connection to a server and returns the reply as text, as
// [Server.Command] does. Network and address are as for [net.Dial]. It is bounded by ctx.
func Exchange(ctx context.Context, network, address string, args ...string) (string, error) {
	r, err := exchangeContext(ctx, network, address, [][]string{args})
	return r.text(), err
}

func exchangeContext(ctx context.Context, network, address string, commands [][]string) (reply, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = conn.Close() }()
	// The end of ctx ends what waits for the server, as a deadline that has passed does.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	r, err := converse(conn, commands)
	if ended := ctx.Err(); err != nil && ended != nil {
		err = fmt.Errorf("%w (%w)", err, ended)
	}
	return r, err
}

func converse(conn io.ReadWriter, commands [][]string) (last reply, err error) {
	in := bufio.NewReader(conn)
	for _, args := range commands {
		if len(args) == 0 {
			return reply{}, errors.New("empty command")
		}
		if _, err := io.WriteString(conn, encode(args)); err != nil {
			return reply{}, err
		}
		if last, err = readReply(in); err != nil {
			return reply{}, err
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

func readReply(in *bufio.Reader) (reply, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return reply{}, errors.New("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return reply{scalar: rest}, nil
	case '-':
		return reply{}, ReplyError(rest)
	case '$', '*':
		return readSized(in, kind, rest)
	}
	return reply{}, fmt.Errorf("unknown reply %q", line)
}

func readSized(in *bufio.Reader, kind byte, length string) (reply, error) {
	n, err := strconv.Atoi(length)
	switch {
	case err != nil:
		return reply{}, err
	case n < 0:
		return reply{scalar: "(nil)"}, nil
	case kind == '$':
		buf := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(in, buf)
		return reply{scalar: string(buf[:n])}, err
	}
	return readArray(in, n)
}

// readArray reads n elements. An error among them, as EXEC gives, is an element and no error.
func readArray(in *bufio.Reader, n int) (reply, error) {
	r := reply{array: true}
	for range n {
		e, err := readReply(in)
		var refused ReplyError
		if errors.As(err, &refused) {
			e = reply{scalar: string(refused)}
		} else if err != nil {
			return reply{}, err
		}
		r.elems = append(r.elems, e)
	}
	return r, nil
}
