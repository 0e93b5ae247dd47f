package chaos

import (
	"context"
	"fmt"
	"net"
	"net/rpc"
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
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// last is the largest token of a write to each object, or slot of one, and refused is how often each refused a token.
	last    map[string]uint64
	refused map[string]int
	// shown is the time at which a token of each object, of any slot, was last taken.
	shown map[string]time.Time
	// kept has, by the clock of the history, until when nodes may keep something of each object after its leases.
	kept map[string]time.Duration
	// runs judges work that is done once. broken are the violations.
	runs   workload.Runs
	broken []string
}

func newResource() (*resource, error) {
	r := &resource{
		conns: make(map[net.Conn]bool), last: make(map[string]uint64), refused: make(map[string]int),
		shown: make(map[string]time.Time), kept: make(map[string]time.Duration),
	}
	calls := rpc.NewServer()
	err := calls.RegisterName("Resource", r)
	if err == nil {
		r.listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("chaos: the resource: %w", err)
	}
	r.serving.Go(func() { r.accept(calls) })
	return r, nil
}

func (r *resource) addr() string { return r.listener.Addr().String() }

func (r *resource) accept(calls *rpc.Server) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conns[conn] = true
		r.mu.Unlock()
		r.serving.Go(func() {
			calls.ServeConn(conn)
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.conns, conn)
		})
	}
}

// Shown is a token that a client shows for an object, or for slots of it. Package rpc demands exported methods and
// arguments.
type Shown struct {
	Name  string
	Slots []int
	Token uint64
	Reads bool
}

// Kept is until when nodes may keep something of an object.
type Kept struct {
	Name  string
	Until time.Duration
}

// Show compares a token with the largest one of a write. The resource does not remember a reader's token, because readers
// have no order. A refusal is no error: a late holder is expected to be refused.
func (r *resource) Show(s Shown, _ *bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	places := []string{s.Name}
	if len(s.Slots) > 0 {
		places = nil
		for _, slot := range s.Slots {
			places = append(places, fmt.Sprintf("%s#%d", s.Name, slot))
		}
	}
	for _, place := range places {
		if s.Token < r.last[place] {
			r.refused[place]++
			continue
		}
		if !s.Reads {
			r.last[place] = s.Token
		}
		r.shown[s.Name] = time.Now()
	}
	return nil
}

// Keep announces until when nodes may keep something of an object.
func (r *resource) Keep(k Kept, _ *bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[k.Name] = max(r.kept[k.Name], k.Until)
	return nil
}

// Ran notes a stage of work that is done once.
func (r *resource) Ran(run workload.Run, _ *bool) error {
	if violation := r.runs.Note(run); violation != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.broken = append(r.broken, violation)
	}
	return nil
}

// used reports whether objects of each kind were shown since an instant: all objects of the kind, or a latch that is
// done.
func (r *resource) used(kinds []Kind, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range kinds {
		all := objects[kind]
		if kind == Latch {
			all = []history.Object{{Of: history.Latch, Name: latches}}
		}
		for _, object := range all {
			if !r.shown[object.Name].After(since) {
				return false
			}
		}
	}
	return true
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
	r.serving.Wait()
}

type resourceConn struct{ *rpc.Client }

func dial(addr string) (resourceConn, error) {
	client, err := rpc.Dial("tcp", addr)
	if err != nil {
		return resourceConn{}, fmt.Errorf("chaos: the resource: %w", err)
	}
	return resourceConn{client}, nil
}

// show shows the token of a part of a lease, for each of its slots.
func (c resourceConn) show(ctx context.Context, part workload.Part) error {
	return c.call(ctx, "Show", Shown{Name: part.Name, Slots: part.Slots, Token: part.Token, Reads: part.Reads})
}

// latches is the name under which the resource notes that any latch is done.
const latches = "latches"

func (c resourceConn) done(ctx context.Context) error {
	return c.call(ctx, "Show", Shown{Name: latches})
}

// keep announces until when nodes may keep something of an object.
func (c resourceConn) keep(ctx context.Context, name string, until time.Duration) error {
	return c.call(ctx, "Keep", Kept{name, until})
}

// ran tells of a stage of work that is done once.
func (c resourceConn) ran(ctx context.Context, run workload.Run, stage workload.Stage) error {
	run.Stage = stage
	return c.call(ctx, "Ran", run)
}

// call makes a call. Errors after the end of ctx do not count, because the resource may be gone then.
func (c resourceConn) call(ctx context.Context, method string, of any) error {
	if err := c.Call("Resource."+method, of, new(bool)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("chaos: the resource: %w", err)
	}
	return nil
}
