package chaos

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// resource is the resource that clients write to. It does not use the library. For each object, it accepts writes
// under a token, and refuses tokens smaller than the largest seen. It refuses reads under a smaller token than that
// of a write. It also learns when a latch is done.
type resource struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// last is the largest token of a write to each object. grants counts the tokens, each when
	// it is seen first. refused is how often each object refused a token.
	last    map[string]uint64
	grants  int
	refused map[string]int
	latest  time.Time
	// shown is the time at which a token of each object, of any slot, was last taken, and at which a latch was last
	// done. dones counts the latter.
	shown map[string]time.Time
	dones int
	// kept has, by the clock of the history, until when nodes may keep something of each object after its leases.
	kept map[string]time.Duration
}

func newResource() (*resource, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("chaos: the resource: %w", err)
	}
	r := &resource{
		listener: listener, conns: make(map[net.Conn]bool),
		last: make(map[string]uint64), refused: make(map[string]int), latest: time.Now(), shown: make(map[string]time.Time),
		kept: make(map[string]time.Duration),
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

// serve answers the lines of a client: a verb, a name, and a token.
func (r *resource) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		r.mu.Lock()
		delete(r.conns, conn)
		r.mu.Unlock()
	}()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			return
		}
		if _, err := fmt.Fprintln(conn, r.answer(words[0], words[1], words[2])); err != nil {
			return
		}
	}
}

// Verbs of clients.
const (
	write = "write"
	read  = "read"
	done  = "done"
	keep  = "keep"
)

const (
	taken = "taken"
	stale = "stale"
	wrong = "wrong"
)

func (r *resource) answer(verb, name, what string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	token, err := strconv.ParseUint(what, 10, 64)
	switch {
	case err != nil:
		return wrong
	case verb == write || verb == read:
		return r.note(name, r.use(verb, name, token))
	case verb == done:
		r.dones++
		r.latest = time.Now()
		return r.note(name, taken)
	case verb == keep:
		r.kept[name] = max(r.kept[name], time.Duration(token)) //nolint:gosec // a time of the clock
		return taken
	default:
		return wrong
	}
}

// note notes that an object was shown, unless its token was stale, and returns the answer.
func (r *resource) note(name, answer string) string {
	if answer == taken {
		object, _, _ := strings.Cut(name, "#")
		r.shown[object] = time.Now()
	}
	return answer
}

// use compares a token with the largest one of a write. It does not remember a reader's token, because readers have
// no order.
func (r *resource) use(verb, name string, token uint64) string {
	if token < r.last[name] {
		r.refused[name]++
		return stale
	}
	if verb == write && token > r.last[name] {
		r.last[name] = token
		r.grants++
		r.latest = time.Now()
	}
	return taken
}

// used reports whether objects of each kind were shown since an instant: all objects of the kind, or a latch that is
// done.
func (r *resource) used(kinds []Kind, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range kinds {
		all := objects[kind]
		if kind == Latch {
			all = []object{{history.Latch, latches}}
		}
		for _, object := range all {
			if !r.shown[object.name].After(since) {
				return false
			}
		}
	}
	return true
}

// seen is the observations so far.
type seen struct {
	grants, dones, late int
	since               time.Duration
}

func (r *resource) seen() seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := seen{grants: r.grants, dones: r.dones, since: time.Since(r.latest)}
	for _, n := range r.refused {
		s.late += n
	}
	return s
}

// keptUntil returns until when nodes may keep a key after the leases of its object, or 0.
func (r *resource) keptUntil(key string) (until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, end := range r.kept {
		if strings.Contains(key, name) {
			until = max(until, end)
		}
	}
	return until
}

// idle reports whether no client is connected.
func (r *resource) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns) == 0
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

// resourceConn is a client's connection to the resource.
type resourceConn struct {
	conn  net.Conn
	lines *bufio.Scanner
}

func dial(ctx context.Context, addr string) (*resourceConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("chaos: the resource: %w", err)
	}
	return &resourceConn{conn: conn, lines: bufio.NewScanner(conn)}, nil
}

// show shows the token of a part of a lease, for each of its slots. A refusal is no error: a late holder is expected
// to be refused.
func (d *resourceConn) show(ctx context.Context, part workload.Part) error {
	verb, names := write, []string{part.Name}
	if part.Reads {
		verb = read
	}
	if len(part.Slots) > 0 {
		names = nil
		for _, slot := range part.Slots {
			names = append(names, fmt.Sprintf("%s#%d", part.Name, slot))
		}
	}
	for _, name := range names {
		if err := d.request(ctx, verb, name, strconv.FormatUint(part.Token, 10)); err != nil {
			return err
		}
	}
	return nil
}

// latches is the name under which the resource notes that any latch is done.
const latches = "latches"

// done reports that a latch is done.
func (d *resourceConn) done(ctx context.Context) error { return d.request(ctx, done, latches, "1") }

// request sends a line and waits for the answer. Errors after the end of ctx do not count, because the resource may be
// gone then.
func (d *resourceConn) request(ctx context.Context, words ...string) error {
	if _, err := fmt.Fprintln(d.conn, strings.Join(words, " ")); err != nil {
		return unless(ctx, fmt.Errorf("chaos: speaking to the resource: %w", err))
	}
	if !d.lines.Scan() {
		return unless(ctx, fmt.Errorf("chaos: the resource does not answer: %w", cmp.Or(d.lines.Err(), errHungUp)))
	}
	if d.lines.Text() == wrong {
		return fmt.Errorf("chaos: the resource does not understand %q", words)
	}
	return nil
}

// unless drops an error after the end of ctx.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

var errHungUp = errors.New("it hung up")
