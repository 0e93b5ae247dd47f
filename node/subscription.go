package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// subscription is a connection that has subscribed to one inbox. It does not use rueidis, which would
// reconnect silently, and panic in a goroutine of its own on messages that a server must not send. It speaks
// RESP2, as all servers do.
type subscription struct {
	inbox *redisInbox
	// subscribes are the commands by which it subscribes.
	subscribes [][]string
	// identity identifies the server that runs the operations.
	identity string
	conn     net.Conn
	in       *bufio.Reader
	// stopOnClose keeps the connection open when the inbox is closed.
	stopOnClose func() bool
}

// open connects, and returns once the server has confirmed that it has subscribed.
func (s *subscription) open(w *route) error {
	_, conn, err := w.connect(s.inbox.ctx)
	if err != nil {
		return err
	}
	s.conn, s.in = conn, bufio.NewReader(conn)
	s.stopOnClose = context.AfterFunc(s.inbox.ctx, func() { _ = conn.Close() })
	if err := s.greet(); err != nil {
		s.close()
		return err
	}
	return nil
}

func (s *subscription) close() {
	s.stopOnClose()
	_ = s.conn.Close()
}

// greet authenticates and subscribes, in one round trip.
func (s *subscription) greet() error {
	opt := s.inbox.node.opt
	user, password := opt.Username, opt.Password
	if opt.AuthCredentialsFn != nil { // it may take longer than an exchange
		c, err := opt.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: s.conn.RemoteAddr()})
		if err != nil {
			return err
		}
		user, password = c.Username, c.Password
	}
	if err := s.conn.SetDeadline(deadline(opt.ConnWriteTimeout)); err != nil {
		return err
	}
	if user == "" {
		user = "default"
	}
	var commands [][]string
	authenticates := password != "" || user != "default"
	if authenticates {
		commands = append(commands, []string{"AUTH", user, password})
	}
	commands = append(commands, []string{"CLIENT", "SETNAME", opt.ClientName}, []string{"INFO", "replication"})
	if err := s.send(append(commands, s.subscribes...)...); err != nil {
		return err
	}
	if authenticates {
		if _, err := readPush(s.in); err != nil {
			return err
		}
	}
	var reply replyError
	if _, err := readPush(s.in); err != nil && !errors.As(err, &reply) {
		return err
	}
	if err := s.identify(); err != nil {
		return err
	}
	return s.subscribed()
}

// subscribed reads the confirmation that this connection has subscribed. Messages that come before it are not delivered,
// since no caller relies on them yet.
func (s *subscription) subscribed() error {
	for _, command := range s.subscribes {
		verb, channel := strings.ToLower(command[0]), command[1]
		answer, err := readPush(s.in)
		for err == nil && s.isMessage(answer) {
			answer, err = readPush(s.in)
		}
		var reply replyError
		switch {
		case errors.As(err, &reply) && reasonOf(err) == ErrAuth: //nolint:errorlint // a reason is never wrapped
			prefix := channel[:strings.LastIndex(channel, ":")+1]
			return fmt.Errorf("%s needs the rights +%s and &%s*: %w", command[0], verb, prefix, err)
		case err != nil:
			return err
		case len(answer) != 3 || answer[0] != verb || answer[1] != channel:
			return fmt.Errorf("%w %.60q", errProtocol, answer)
		}
	}
	return nil
}

// errOtherServer says that the address now leads to another server than the connection of the operations.
var errOtherServer = errors.New("the subscription and the operations reach different servers at this address")

// identify checks, by the reply to INFO, that this is the server that runs the operations. They need INFO too, unless
// the options say otherwise.
func (s *subscription) identify() error {
	info, err := readPush(s.in)
	if err != nil {
		if s.inbox.node.link.allowUnseen && errors.As(err, new(replyError)) {
			return nil
		}
		return err
	}
	identity, err := checkFitness(strings.Join(info, ""), s.inbox.node.tag != "", s.inbox.node.Unseen() != "")
	if err == nil && identity != s.identity {
		return errOtherServer
	}
	return err
}

// send sends commands in one write.
func (s *subscription) send(commands ...[]string) error {
	var b strings.Builder
	for _, args := range commands {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, arg := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
		}
	}
	_, err := io.WriteString(s.conn, b.String())
	return err
}

// receive delivers messages until the connection breaks or the inbox is closed. It reports whether the
// connection has worked: whether a message or an answer to a PING came.
func (s *subscription) receive(deliver func(wire.Message)) (served bool) {
	ctx, cancel := context.WithCancel(s.inbox.ctx)
	var pings sync.WaitGroup
	pings.Go(func() { s.keepAlive(ctx) })
	defer pings.Wait()
	defer cancel()
	defer s.close()
	for {
		if err := s.conn.SetReadDeadline(deadline(pingInterval + s.inbox.node.opt.ConnWriteTimeout)); err != nil {
			return served
		}
		push, err := readPush(s.in)
		if err != nil {
			return served
		}
		if s.handlePush(push, deliver) {
			served = true
		}
	}
}

// handlePush handles one push of the server, and reports whether it was a message or an answer to a PING.
func (s *subscription) handlePush(push []string, deliver func(wire.Message)) bool {
	if !s.isMessage(push) {
		return len(push) == 2 && push[0] == "pong"
	}
	if _, message, ok := wire.Published(push[len(push)-2], push[len(push)-1]); ok {
		deliver(message)
	}
	return true
}

// isMessage reports whether a push is a message on one of the channels to which this connection has subscribed.
func (s *subscription) isMessage(push []string) bool {
	switch {
	case len(push) == 3 && push[0] == "message":
		return push[1] == s.subscribes[0][1]
	case len(push) == 4 && push[0] == "pmessage":
		return len(s.subscribes) > 1
	default:
		return false
	}
}

// keepAlive sends a PING from time to time. It closes the connection when the operations have moved to
// another server.
func (s *subscription) keepAlive(ctx context.Context) {
	for sleep(ctx, pingInterval) {
		if identity, _ := s.inbox.node.Server(); identity != s.identity {
			_ = s.conn.Close()
			return
		}
		if s.conn.SetWriteDeadline(deadline(s.inbox.node.opt.ConnWriteTimeout)) != nil || s.send([]string{"PING"}) != nil {
			_ = s.conn.Close()
			return
		}
	}
}

// deadline returns the time d from now.
func deadline(d time.Duration) time.Time {
	return time.Now().Add(d) //nolint:forbidigo // connections have their deadlines by this clock
}

// The bounds of one message: a message has at most four values, and names have any reasonable length.
const (
	maxValues = 4
	maxValue  = 1 << 20
)

// readPush reads one push in RESP2: an array of values, or a single one.
func readPush(r *bufio.Reader) ([]string, error) {
	line, err := readBuffered(r)
	if err != nil {
		return nil, err
	}
	length, isArray := bytes.CutPrefix(line, []byte("*"))
	if !isArray {
		value, err := readValue(r, line)
		return []string{value}, err
	}
	n, err := strconv.ParseUint(string(length), 10, 31)
	if err != nil || n > maxValues {
		return nil, fmt.Errorf("%w %.30q", errProtocol, line)
	}
	values := make([]string, n)
	for i := range values {
		if line, err = readBuffered(r); err != nil {
			return nil, err
		}
		if values[i], err = readValue(r, line); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// readBuffered reads a line. The line is valid until the next read.
func readBuffered(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w %.30q", errProtocol, line)
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// readValue reads a string or a number that begins with line. An error of the server becomes a [replyError].
// It reserves no more memory than bytes have come, for any length that the server announces.
func readValue(r *bufio.Reader, line []byte) (string, error) {
	kind, text := byte(0), line
	if len(line) > 0 {
		kind, text = line[0], line[1:]
	}
	switch kind {
	case '+', ':':
		return string(text), nil
	case '-':
		return "", replyError(strings.TrimPrefix(string(text), "ERR "))
	}
	n, err := strconv.ParseUint(string(text), 10, 31)
	if kind != '$' || err != nil || n > maxValue {
		return "", fmt.Errorf("%w %.30q", errProtocol, line)
	}
	value, err := readText(r, int(n))
	if err != nil {
		return "", err
	}
	end, err := readBuffered(r)
	if err == nil && len(end) > 0 {
		err = fmt.Errorf("%w %.30q", errProtocol, end)
	}
	return value, err
}

// readText reads n bytes. Nearly all texts fit into the buffer, and take one allocation.
func readText(r *bufio.Reader, n int) (string, error) {
	if n > r.Size() {
		var text strings.Builder
		_, err := io.CopyN(&text, r, int64(n))
		return text.String(), err
	}
	buffered, err := r.Peek(n)
	if err != nil {
		return "", err
	}
	text := string(buffered)
	_, err = r.Discard(n)
	return text, err
}
