// Package memory makes nodes within the process, which run the scripts of servers. So a test in virtual time plays what
// servers run.
//
// It is a package of its own, since it brings an interpreter of Lua, which a service does not need.
package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/redislua"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Node is a [node.Node] within the process. It runs the scripts of a Redis node, and so keeps all promises of one. It can
// also fail as servers do: be unreachable (Stop), hang (Pause), or lose its memory (Flush, Crash). It is for tests and
// demonstrations: it excludes no other process.
type Node struct {
	wire.Endpoint // what clients ask of it

	name  string
	clock clock.Clock

	mu      sync.Mutex
	server  *redislua.Server
	scripts *node.Scripts
	// saved has the keys after the next Crash. identity changes with each Crash.
	saved    redislua.Snapshot
	identity string
	stopped  bool
	closed   bool
	// resume is closed when a pause ends; nil without a pause.
	resume  chan struct{}
	quit    chan struct{}
	inboxes []*inbox
}

// endpoint is a [Node] as a client works with it. The documentation of Node does not show its methods.
type endpoint Node

var _ node.Node = (*Node)(nil)

// New makes an empty node with its time on the given clock; nil is [clock.System]. As on a server, keys end by the wall
// clock, in whole milliseconds.
func New(name string, c clock.Clock) *Node {
	if c == nil {
		c = clock.System()
	}
	m := &Node{
		name:     name,
		clock:    c,
		identity: newIdentity(),
		quit:     make(chan struct{}),
	}
	m.Endpoint = (*endpoint)(m)
	m.server = redislua.New((*host)(m))
	m.scripts = node.NewScripts(name, m.command)
	return m
}

// newIdentity returns a text in the form of a server's replication id.
func newIdentity() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// Name implements [node.Node].
func (m *Node) Name() string { return m.name }

// Server returns an identity that changes with every Crash.
func (e *endpoint) Server() (identity, process string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.identity, ""
}

func (*endpoint) RoundTrip() time.Duration { return 0 }
func (*endpoint) Eviction() string         { return "" }
func (*endpoint) Unseen() string           { return "" }

// Stop makes the node unreachable until Start, as a cut network does. The node keeps its state, except for
// its subscriptions; see Crash.
func (m *Node) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	m.loseSubscriptions()
}

// Start ends a Stop.
func (m *Node) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = false
	m.subscribe()
}

// Pause makes the node hang until Resume, as SIGSTOP does to a server. Calls wait for 1 s and fail;
// messages are delivered later.
func (m *Node) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resume == nil {
		m.resume = make(chan struct{})
	}
}

// Resume ends a Pause.
func (m *Node) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resume != nil {
		close(m.resume)
		m.resume = nil
		m.signalInboxes()
	}
}

// Flush makes the node forget its whole state and its marker, as FLUSHALL does. Subscriptions stay.
func (m *Node) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.Do("FLUSHALL")
}

// Save keeps the present state for the next Crash, like a snapshot on a server's disk, or like the writes
// that have reached its replica.
func (m *Node) Save() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = m.server.Snapshot()
}

// Crash restarts the node: it comes back at once with a new identity, and with the state of the last Save, or
// with none. TTLs of saved keys go on. Subscriptions are lost, and made again.
func (m *Node) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.Restore(m.saved)
	m.identity = newIdentity()
	m.loseSubscriptions()
	m.subscribe()
}

// Plant puts a key that is not a lock at a name, in place of a lock, as another program may do on a shared server.
func (m *Node) Plant(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.Do("SET", name, "not a lock")
}

// Keys lists the locks that are held now, sorted, without tombstones.
func (m *Node) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := []string{}
	for _, key := range m.server.Do("KEYS", "*").Items {
		if wire.MayBeLock(key.Text) && m.server.Do("TYPE", key.Text).Text == "hash" {
			names = append(names, key.Text)
		}
	}
	return names
}

// listStep is how many names a List returns. It is small, so that tests with few locks have several steps.
const listStep = 10

// hash orders the names for List. An order in which names that come or go do not move others lets a cursor find its place.
func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return h.Sum64()
}

// List returns a cursor that is the hash of the next name.
func (e *endpoint) List(ctx context.Context, cursor uint64) (names []string, next uint64, err error) {
	m := (*Node)(e)
	if err := m.ready(ctx); err != nil {
		return nil, 0, &node.Error{Node: m.name, Op: "list", Reason: err}
	}
	names = slices.DeleteFunc(m.Keys(), func(name string) bool { return hash(name) < cursor })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(hash(a), hash(b)) })
	if len(names) > listStep {
		names, next = names[:listStep], hash(names[listStep])
	}
	return names, next, nil
}

func (e *endpoint) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	e.DoWithPause(ctx, ops, replies, func() error { return nil })
}

// DoWithPause is Do, and calls pause before it runs operations again, which other calls may then overtake. If pause returns
// an error, these fail with it.
func (e *endpoint) DoWithPause(ctx context.Context, ops []wire.Op, replies []wire.Reply, pause func() error) {
	m := (*Node)(e)
	if err := m.ready(ctx); err != nil {
		for i, op := range ops {
			replies[i] = wire.Reply{Err: &node.Error{Node: m.name, Op: op.Kind.String(), Reason: err}, Unsent: !errors.Is(err, node.ErrTimeout)}
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts.Do(ops, replies, func() error {
		m.mu.Unlock()
		defer m.mu.Lock()
		return pause()
	})
}

// Eternal lists the keys that never expire.
func (e *endpoint) Eternal() (keys []string) {
	m := (*Node)(e)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.server.Do("KEYS", "*").Items {
		if m.server.Do("PTTL", key.Text).Int < 0 {
			keys = append(keys, key.Text)
		}
	}
	return keys
}

// Probe implements [node.Node].
func (m *Node) Probe(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return &node.Error{Node: m.name, Reason: err}
	}
	return nil
}

// Close implements [node.Node], and closes all inboxes.
func (m *Node) Close() error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.quit)
	}
	inboxes := slices.Clone(m.inboxes)
	m.mu.Unlock()
	for _, b := range inboxes {
		_ = b.Close()
	}
	return nil
}

// ready waits for the end of a pause, and returns why the node cannot be used, if so.
func (m *Node) ready(ctx context.Context) error {
	if err := m.awaitResume(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return node.ErrClosed
	case ctx.Err() != nil:
		return node.ErrCanceled
	case m.stopped:
		return node.ErrUnreachable
	default:
		return nil
	}
}

func (m *Node) awaitResume(ctx context.Context) error {
	m.mu.Lock()
	resumed := m.resume
	m.mu.Unlock()
	if resumed == nil {
		return nil
	}
	late := make(chan struct{})
	timer := m.clock.AfterFunc(wire.DefaultTimeout, func() { close(late) })
	defer timer.Stop()
	select {
	case <-resumed:
		return nil
	case <-late:
		return node.ErrTimeout
	case <-ctx.Done():
		return node.ErrCanceled
	case <-m.quit:
		return node.ErrClosed
	}
}
