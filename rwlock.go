package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/quorum"
)

// RWLock is a lock that any number of readers hold at the same time, or one writer. Both need a
// majority of the nodes. It is a description, as a [Lock] is: immutable, and safe for concurrent
// use.
type RWLock struct {
	read, write *Lock
}

// RWLock describes a lock for readers and writers. What RedLock says of names holds for it.
//
// Its writer is a RedLock of the same name, no more and no less: either excludes the other, and
// the readers. So does Redisson's RLock, but not its RReadWriteLock, which is laid out in
// another way.
func (c *Client) RWLock(name string) *RWLock {
	return &RWLock{
		read:  newLock(c, []string{name}, quorum.Majority()).reading(),
		write: newLock(c, []string{name}, quorum.Majority()),
	}
}

// With is the same lock with these options, and no others, for readers and writers.
func (rw *RWLock) With(o LockOptions) *RWLock {
	return &RWLock{read: rw.read.With(o), write: rw.write.With(o)}
}

// Read is the lock of the readers. A reader shares it with all others, in this process and
// elsewhere, and nobody writes meanwhile.
//
// Turns are in the order in which they came: readers that came before the first writer that
// waits go together, and those that come later go after it. So neither can keep the other out
// for ever. Whoever waits is woken; only with WaitSpin do readers take the lock past writers
// that wait. Leases of readers are not handed over; see [Handover].
//
// The token of a reader is that of the last writer, or when there has been none for a time, one
// that is larger than that and smaller than the next one's. Several readers, and a writer and
// the readers after it, may have the same. So what the lock protects remembers the tokens of
// writers only, and refuses those of readers that are smaller.
//
// A context that holds the lock already, as a reader or as the writer, gets a nested lease.
func (rw *RWLock) Read() *Lock { return rw.read }

// Write is the lock of the writer, whom it leaves alone with what the lock protects.
//
// A context that holds the lock as a reader gets an ErrUpgrade: the writer would wait for the
// reader, which is itself.
func (rw *RWLock) Write() *Lock { return rw.write }

// Downgrade makes the lease of a writer that of a reader, without letting another writer in:
// from the call on it must only be used to read. Its token stays the same, and it renews itself as
// before.
//
// It returns nil once so many nodes have confirmed it that other readers can have the lock too,
// and at once in effect where the lease is a reader's already. It may be repeated. It fails with a
// [*NoQuorumError] if too few nodes confirm it: the lease is a reader's all the same, and the
// renewals have the other nodes follow, those of a Fixed lease excepted, for which Extend is
// there. It fails with the reason of the end if the lease has ended; with ctx's error, while the
// downgrade goes on; with ErrShared, and then changes nothing, if other leases are nested in
// this one, or it in them, as their holders count on being alone; and with an [*InvalidError] if
// the lease is of another lock.
func (rw *RWLock) Downgrade(ctx context.Context, l *Lease) error {
	switch {
	case ctx == nil:
		return errNilContext
	case l == nil:
		return &InvalidError{Problems: []string{"the lease is nil"}}
	case l.tenure.hold.client != rw.write.client || !slices.Equal(l.tenure.lock.names, rw.write.names):
		return &InvalidError{Problems: []string{fmt.Sprintf("the lease is of another lock than %s", quoted(rw.write.names))}}
	}
	return l.renewing(ctx, (*tenure).downgrade)
}

// ErrUpgrade means that the context holds the lock as a reader, and asks for it as a writer. It is
// an ErrOverlap.
var ErrUpgrade error = upgradeError{}

type upgradeError struct{}

func (upgradeError) Error() string {
	return "quorumlock: the context holds this lock as a reader, and the writer has to wait for all readers; release that lease first"
}

func (upgradeError) Unwrap() error { return ErrOverlap }

// ErrShared means that a lease cannot become a reader's, as nested leases share what it holds.
var ErrShared = errors.New("quorumlock: the lease is nested, or others are nested in it; release those first")

// reading is the same lock for readers.
func (l *Lock) reading() *Lock {
	l.reads, l.handover = true, false
	return l
}

// downgrade starts the renewal that has the nodes make a writer's claims those of a reader. The
// others of this client who want to write have to ask the nodes from now on: only there do new
// readers see that they wait.
func (t *tenure) downgrade(done chan error) error {
	h := t.hold
	h.mu.Lock()
	now := h.client.clock.Now()
	switch {
	case t.overAt(now) != nil:
		h.mu.Unlock()
		return t.err()
	case !h.reads && t.handles > 1:
		h.mu.Unlock()
		return ErrShared
	}
	h.reads = true
	h.renew(now, done)
	h.client.lines.gave(h)
	h.mu.Unlock()
	return nil
}

// reads reports whether its leases are those of a reader.
func (t *tenure) reads() bool {
	t.hold.mu.Lock()
	defer t.hold.mu.Unlock()
	return t.hold.reads
}
