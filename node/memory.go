package node

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/clock"
)

// Memory is a [Node] within the process. It keeps every promise of a Redis node. It can also fail as servers
// do: be unreachable (Stop), hang (Pause), or lose its memory (Flush, Crash). It is for tests and
// demonstrations: it excludes no other process.
type Memory struct {
	name  string
	clock clock.Clock

	mu sync.Mutex
	memoryState
	// saved is the state after the next Crash. identity changes with each Crash.
	saved    memoryState
	identity string
	stopped  bool
	closed   bool
	// resume is closed when a pause ends; nil without a pause.
	resume  chan struct{}
	quit    chan struct{}
	inboxes map[*memoryInbox]struct{}

	// engine runs the scripts, on its own keys instead of the state above; nil if the node runs its own rules. restore
	// brings back its keys after the next Crash.
	engine  Engine
	restore func()
	writer  writer
}

var (
	_ Node     = (*Memory)(nil)
	_ Listener = (*Memory)(nil)
)

// NewMemory makes an empty in-memory node with its TTLs on the given clock; nil is [clock.System].
func NewMemory(name string, c clock.Clock) *Memory {
	if c == nil {
		c = clock.System()
	}
	return &Memory{
		name:        name,
		clock:       c,
		memoryState: newState(),
		saved:       newState(),
		identity:    rand.Text(),
		quit:        make(chan struct{}),
		inboxes:     make(map[*memoryInbox]struct{}),
	}
}

// Name implements [Node].
func (m *Memory) Name() string { return m.name }

// Identity implements [Node]: it changes with every Crash.
func (m *Memory) Identity() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.identity
}

// Stop makes the node unreachable until Start, as a cut network does. The node keeps its state, except for
// its subscriptions; see Crash.
func (m *Memory) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	m.loseSubscriptions()
}

// Start ends a Stop.
func (m *Memory) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = false
	m.subscribe()
}

// Pause makes the node hang until Resume, as SIGSTOP does to a server. Calls wait for [DefaultTimeout] and
// fail; messages are delivered later.
func (m *Memory) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resume == nil {
		m.resume = make(chan struct{})
	}
}

// Resume ends a Pause.
func (m *Memory) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resume != nil {
		close(m.resume)
		m.resume = nil
		m.signalInboxes()
	}
}

// Flush makes the node forget its whole state and its marker, as FLUSHALL does. Subscriptions stay.
func (m *Memory) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memoryState = newState()
	if m.engine != nil {
		m.engine.Do("FLUSHALL")
	}
}

// Save keeps the present state for the next Crash, like a snapshot on a server's disk, or like the writes
// that have reached its replica.
func (m *Memory) Save() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = m.clone()
	if m.engine != nil {
		m.restore = m.engine.Save()
	}
}

// Crash restarts the node: it comes back at once with a new identity, and with the state of the last Save, or
// with none. TTLs of saved keys go on. Subscriptions are lost, and made again.
func (m *Memory) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memoryState = m.saved.clone()
	m.identity = rand.Text()
	if m.engine != nil {
		m.restore()
		m.renewIdentity()
	}
	m.loseSubscriptions()
	m.subscribe()
}

// Plant puts a key that is not a lock at a name, in place of a lock, as another program may do on a shared server.
func (m *Memory) Plant(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.locks, name)
	m.foreign[name] = true
	if m.engine != nil {
		m.engine.Do("SET", name, "not a lock")
	}
}

// Keys lists the locks that are held now, sorted, without tombstones.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.engine != nil {
		return m.locksOfEngine()
	}
	keys := make([]string, 0, len(m.locks))
	for name := range m.locks {
		if _, held := m.holder(name); held {
			keys = append(keys, name)
		}
	}
	slices.Sort(keys)
	return keys
}

// Do implements [Node].
func (m *Memory) Do(ctx context.Context, ops []Op, replies []Reply) {
	if err := m.ready(ctx); err != nil {
		failAll(m.name, ops, replies, err, nil, !errors.Is(err, ErrTimeout))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.engine != nil {
		m.runScripts(ops, replies)
		return
	}
	for i, op := range ops {
		replies[i] = m.do(op)
	}
}

// Probe implements [Node].
func (m *Memory) Probe(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return &Error{Node: m.name, Reason: err}
	}
	return nil
}

// Close implements [Node], and closes all inboxes.
func (m *Memory) Close() error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.quit)
	}
	inboxes := slices.Collect(maps.Keys(m.inboxes))
	m.mu.Unlock()
	for _, b := range inboxes {
		_ = b.Close()
	}
	return nil
}

// ready waits for the end of a pause, and returns why the node cannot be used, if so.
func (m *Memory) ready(ctx context.Context) error {
	if err := m.awaitResume(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case ctx.Err() != nil:
		return ErrCanceled
	case m.stopped:
		return ErrUnreachable
	default:
		return nil
	}
}

func (m *Memory) awaitResume(ctx context.Context) error {
	m.mu.Lock()
	resumed := m.resume
	m.mu.Unlock()
	if resumed == nil {
		return nil
	}
	late := make(chan struct{})
	timer := m.clock.AfterFunc(DefaultTimeout, func() { close(late) })
	defer timer.Stop()
	select {
	case <-resumed:
		return nil
	case <-late:
		return ErrTimeout
	case <-ctx.Done():
		return ErrCanceled
	case <-m.quit:
		return ErrClosed
	}
}
