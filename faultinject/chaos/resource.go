package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/fence"
)

// resource is what the locks protect: a thing for each name that takes writes under a
// token, and refuses those under a smaller token than it has seen.
type resource struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	gates map[string]*fence.Gate
	// grants counts tokens, each when it is seen first; writes and refused count calls.
	last                    map[string]uint64
	grants, writes, refused int
	latest                  time.Time
}

func newResource() (*resource, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("chaos: the resource: %w", err)
	}
	r := &resource{
		listener: listener, conns: make(map[net.Conn]bool), gates: make(map[string]*fence.Gate),
		last: make(map[string]uint64), latest: time.Now(),
	}
	r.wg.Go(r.accept)
	return r, nil
}

func (r *resource) addr() string { return r.listener.Addr().String() }

func (r *resource) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns[conn] = true
		r.mu.Unlock()
		r.wg.Go(func() { r.serve(conn) })
	}
}

// serve answers the lines of a client: a name and a token each.
func (r *resource) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var name string
		var token uint64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &name, &token); err != nil {
			return
		}
		if _, err := fmt.Fprintln(conn, r.write(name, token)); err != nil {
			return
		}
	}
}

// The answers.
const (
	written = "written"
	stale   = "stale"
)

func (r *resource) write(name string, token uint64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gates[name] == nil {
		r.gates[name] = &fence.Gate{}
	}
	r.writes++
	if err := r.gates[name].Do(token, func() error { return nil }); errors.Is(err, fence.ErrStale) {
		r.refused++
		return stale
	}
	if r.last[name] != token {
		r.last[name] = token
		r.grants++
		r.latest = time.Now()
	}
	return written
}

// counted is how much has been seen so far.
func (r *resource) counted() (grants, refused int, since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants, r.refused, time.Since(r.latest)
}

func (r *resource) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// desk is a client's connection to the resource.
type desk struct {
	conn  net.Conn
	lines *bufio.Scanner
}

func dial(ctx context.Context, addr string) (*desk, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("chaos: the resource: %w", err)
	}
	return &desk{conn: conn, lines: bufio.NewScanner(conn)}, nil
}

// write reports whether the resource took a write under a token.
func (d *desk) write(name string, token uint64) (taken bool, err error) {
	if _, err := fmt.Fprintln(d.conn, name, token); err != nil {
		return false, fmt.Errorf("chaos: writing to the resource: %w", err)
	}
	if !d.lines.Scan() {
		return false, fmt.Errorf("chaos: the resource does not answer: %w", cmpErr(d.lines.Err()))
	}
	return d.lines.Text() == written, nil
}

var errHungUp = errors.New("it hung up")

func cmpErr(err error) error {
	if err == nil {
		return errHungUp
	}
	return err
}
