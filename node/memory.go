package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Memory is a [Node] within the process. It keeps every promise that a Redis node
// keeps, and can be made to break them as servers do: unreachable (Stop), hung
// (Pause), forgetful (Flush). It serves tests and demonstrations: it excludes nobody
// outside of the process.
type Memory struct {
	name  string
	clock clock.Clock

	mu         sync.Mutex
	locks      map[string]claim
	tombstones map[grave]time.Duration
	foreign    map[string]bool
	stopped    bool
	closed     bool
	// resumed is closed when a pause ends; nil while there is none.
	resumed chan struct{}
	quit    chan struct{}
}

var _ Node = (*Memory)(nil)

// claim is what the node holds for one owner of one name.
type claim struct {
	owner  string
	expiry time.Duration
}

// grave is where an owner is buried: one for each name that it was forced off.
type grave struct{ name, owner string }

// NewMemory makes an empty in-memory node whose TTLs run on the given clock; nil is
// [clock.System].
func NewMemory(name string, c clock.Clock) *Memory {
	if c == nil {
		c = clock.System()
	}
	return &Memory{
		name:       name,
		clock:      c,
		locks:      make(map[string]claim),
		tombstones: make(map[grave]time.Duration),
		foreign:    make(map[string]bool),
		quit:       make(chan struct{}),
	}
}

// Name implements [Node].
func (m *Memory) Name() string { return m.name }

// Stop makes the node unreachable, as a killed server is, until Start. It keeps what
// it knows, as a server with perfect persistence would; see Flush.
func (m *Memory) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
}

// Start ends a Stop.
func (m *Memory) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = false
}

// Pause makes the node hang, as SIGSTOP does a server, until Resume: calls wait for
// [DefaultTimeout] and fail.
func (m *Memory) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resumed == nil {
		m.resumed = make(chan struct{})
	}
}

// Resume ends a Pause.
func (m *Memory) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resumed != nil {
		close(m.resumed)
		m.resumed = nil
	}
}

// Flush makes the node forget all that it holds.
func (m *Memory) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.locks)
	clear(m.tombstones)
	clear(m.foreign)
}

// Plant puts something that is not a lock at a name, as a program of somebody else may
// do on a shared server.
func (m *Memory) Plant(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.foreign[name] = true
}

// Keys lists, sorted, the locks that are held now, tombstones left out.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
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
		fail(m.name, ops, replies, err, nil, !errors.Is(err, ErrTimeout))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, op := range ops {
		replies[i] = m.run(op)
	}
}

// Probe implements [Node].
func (m *Memory) Probe(ctx context.Context) error {
	if err := m.ready(ctx); err != nil {
		return &Error{Node: m.name, Reason: err}
	}
	return nil
}

// Close implements [Node].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.quit)
	}
	return nil
}

// ready waits out a pause, and says why the node cannot be used.
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
	resumed := m.resumed
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

// run carries out one operation, as the script of its kind does.
func (m *Memory) run(op Op) Reply {
	for _, name := range op.Names {
		if m.foreign[name] && op.Kind != Release {
			return Reply{Err: &Error{Node: m.name, Op: op.Kind, Reason: ErrWrongType}}
		}
	}
	switch op.Kind {
	case Acquire:
		return m.acquire(op)
	case Renew:
		return m.renew(op)
	case Release:
		return m.release(op)
	case Inspect:
		return Reply{Outcome: Inspected, Holders: m.holders(op.Names)}
	default:
		return m.forceRelease(op)
	}
}

func (m *Memory) acquire(op Op) Reply {
	var denial Holder
	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner != op.Owner && h.TTL > denial.TTL {
			denial = h
		}
	}
	if denial.Name != "" {
		return Reply{Outcome: Denied, Holder: denial}
	}
	for _, name := range op.Names {
		m.locks[name] = claim{owner: op.Owner, expiry: m.clock.Now() + op.TTL}
	}
	return Reply{Outcome: Granted}
}

func (m *Memory) renew(op Op) Reply {
	outcome := Granted
	for _, name := range op.Names {
		h, held := m.holder(name)
		switch {
		case !held && m.buried(name, op.Owner):
			return Reply{Outcome: Denied, Holder: Holder{Name: name}}
		case !held:
			outcome = Healed
		case h.Owner != op.Owner:
			return Reply{Outcome: Denied, Holder: h}
		}
	}
	for _, name := range op.Names {
		expiry := max(m.locks[name].expiry, m.clock.Now()+op.TTL)
		m.locks[name] = claim{owner: op.Owner, expiry: expiry}
	}
	return Reply{Outcome: outcome}
}

func (m *Memory) release(op Op) Reply {
	outcome := Absent
	for _, name := range op.Names {
		if h, held := m.holder(name); held && h.Owner == op.Owner {
			delete(m.locks, name)
			outcome = Released
		}
	}
	return Reply{Outcome: outcome}
}

func (m *Memory) forceRelease(op Op) Reply {
	found := m.holders(op.Names)
	for _, name := range op.Names {
		for _, owner := range op.Buried {
			m.bury(name, owner, op.TTL)
		}
	}
	for _, h := range found {
		m.bury(h.Name, h.Owner, max(op.TTL, h.TTL))
		delete(m.locks, h.Name)
	}
	return Reply{Outcome: foundOutcome(ForceRelease, len(found)), Holders: found}
}

// holder is who has a name now. What has run out is forgotten on the way.
func (m *Memory) holder(name string) (Holder, bool) {
	c, ok := m.locks[name]
	if !ok {
		return Holder{}, false
	}
	left := c.expiry - m.clock.Now()
	if left <= 0 {
		delete(m.locks, name)
		return Holder{}, false
	}
	return Holder{Name: name, Owner: c.owner, TTL: left}, true
}

func (m *Memory) holders(names []string) []Holder {
	found := make([]Holder, 0, len(names))
	for _, name := range names {
		if h, held := m.holder(name); held {
			found = append(found, h)
		}
	}
	return found
}

func (m *Memory) bury(name, owner string, ttl time.Duration) {
	m.tombstones[grave{name, owner}] = m.clock.Now() + ttl
}

func (m *Memory) buried(name, owner string) bool {
	expiry, ok := m.tombstones[grave{name, owner}]
	if ok && expiry <= m.clock.Now() {
		delete(m.tombstones, grave{name, owner})
		return false
	}
	return ok
}
