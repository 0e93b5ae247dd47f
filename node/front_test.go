package node_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// relay is a proxy to a server. It can hold back the bytes that the client has sent.
type relay struct {
	*redisproc.Front
	target string
	// holding makes new connections hold back bytes from their first script on.
	holding atomic.Bool

	mu    sync.Mutex
	pipes []*pipe
}

// pipe is one connection through a relay.
type pipe struct {
	relay *relay
	up    *net.TCPConn
	mu    sync.Mutex
	held  bool
	late  []byte
	// read is closed when the client has closed the connection. drained is closed when the server
	// has closed it and all answers were read.
	read, drained chan struct{}
}

func newRelay(t testing.TB, target string) *relay {
	r := &relay{Front: redisproc.Serve(t, func(net.Conn) {}), target: target}
	r.Serve(r.carry)
	return r
}

func (r *relay) carry(c net.Conn) {
	up, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	r.Keep(up)
	w := &pipe{relay: r, up: up.(*net.TCPConn), read: make(chan struct{}), drained: make(chan struct{})}
	r.mu.Lock()
	r.pipes = append(r.pipes, w)
	r.mu.Unlock()
	var answers sync.WaitGroup
	defer answers.Wait()
	answers.Go(func() {
		defer close(w.drained)
		_, _ = io.Copy(c, up)
		_, _ = io.Copy(io.Discard, up)
	})
	defer close(w.read)
	w.pump(c)
}

// pump forwards the client's bytes or holds them back.
func (w *pipe) pump(c net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		w.mu.Lock()
		if w.relay.holding.Load() && bytes.Contains(bytes.ToUpper(buf[:n]), []byte("EVAL")) {
			w.held = true
		}
		if w.held {
			w.late = append(w.late, buf[:n]...)
		} else {
			_, _ = w.up.Write(buf[:n])
			if err != nil {
				_ = w.up.Close()
			}
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// count returns the number of connections so far.
func (r *relay) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pipes)
}

// deliver sends the server the bytes held back on connections that the client has closed. It
// returns when the server has executed or refused all of them.
func (r *relay) deliver() (pipes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.pipes {
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		if !held {
			continue
		}
		pipes++
		<-w.read
		_, _ = w.up.Write(w.late)
		_ = w.up.CloseWrite()
		<-w.drained
	}
	return pipes
}

// hello returns a fake server's answer to a handshake command. The result is false for all other
// commands.
func hello(args []string) (string, bool) {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return "%2\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n", true
	case "CLIENT":
		return bulk("id=7 addr=127.0.0.1:7 name="), true
	case "INFO":
		return bulk("role:master\r\nmaster_replid:fake\r\nmaxmemory_policy:noeviction\r\n"), true
	default:
		return "", false
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// fake serves a handshake and answers all other commands with the test's bytes. It closes the
// connection if the answer is not ok.
func fake(answer func(args []string) (reply string, ok bool)) func(net.Conn) {
	return func(c net.Conn) {
		greeted := false
		converse(c, func(args []string) (string, bool) {
			if !greeted && args[0] == "PING" {
				return "+PONG\r\n", true
			}
			greeted = true
			if reply, ok := hello(args); ok {
				return reply, true
			}
			return answer(args)
		})
	}
}

// converse answers every command.
func converse(c net.Conn, answer func(args []string) (reply string, ok bool)) {
	in := bufio.NewReader(c)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		reply, ok := answer(args)
		if _, err := io.WriteString(c, reply); err != nil || !ok {
			return
		}
	}
}

// always gives the same answer to every command.
func always(reply string) func([]string) (string, bool) {
	return func([]string) (string, bool) { return reply, true }
}

// readCommand reads one command in the clients' format.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		buf := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, buf); err != nil {
			return nil, err
		}
		args[i] = string(buf[:size])
	}
	return args, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q where %c was due", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
