package quorumlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/quorum"
)

// RWLock is a lock that either any number of readers hold at the same time, or one writer. Both
// need a majority of the nodes. Like a [Lock] it is a description: immutable, and safe for
// concurrent use.
type RWLock struct {
	read, write *Lock
}

// RWLock describes a lock for readers and writers. The rules for names are the same as for
// [Client.RedLock].
//
// Its writer is exactly a RedLock of the same name: it excludes other RedLocks and the readers. It
// also excludes Redisson's RLock, but not Redisson's RReadWriteLock, whose keys have another form.
func (c *Client) RWLock(name string) *RWLock {
	return &RWLock{
		read:  newLock(c, []string{name}, quorum.Majority()).asReader(),
		write: newLock(c, []string{name}, quorum.Majority()),
	}
}

// With returns the same lock with these options besides its earlier ones, for readers and
// writers.
func (rw *RWLock) With(o LockOptions) *RWLock {
	return &RWLock{read: rw.Read().With(o), write: rw.Write().With(o)}
}

// Read returns the lock of the readers. All readers share it, in this process and elsewhere, and
// exclude the writer.
//
// Turns are FIFO. Readers that came before the first waiting writer go together, and readers that
// came later go after it. So neither kind can starve the other. Waiters are woken. Only with
// Spin do readers overtake waiting writers. Leases of readers are not handed over; see
// [Handover].
//
// A reader's token is at least the token of the last writer, and smaller than the next writer's.
// Several readers may have the same token, and so may a writer and the readers after it. So the
// protected resource should remember only the tokens of writers, and refuse readers whose token is
// smaller.
//
// A context that already holds the lock, as reader or writer, gets a nested lease.
func (rw *RWLock) Read() *Lock { return orZero(rw.read) }

// Write returns the lock of the writer, which excludes all others.
//
// If the context holds the lock as a reader, the error is an ErrOverlap: the writer would wait for its
// own reader.
func (rw *RWLock) Write() *Lock { return orZero(rw.write) }

// orZero returns the lock, or the zero Lock for nil.
func orZero(l *Lock) *Lock {
	if l == nil {
		return &Lock{}
	}
	return l
}

// Downgrade turns a writer's lease into a reader's, without letting another writer in. From the
// call on, use the lease only to read. Its token stays the same, and it renews itself as before.
//
// It returns nil once a quorum has confirmed it. Other readers can then get the lock. If the
// lease was acquired by a reader, it returns nil at once. It may be repeated. It fails with
//
//   - a [*NoQuorumError] if too few nodes confirm it. The lease is a reader's all the same, and its
//     renewals make the other nodes follow; for a Fixed lease, Extend does.
//   - the lease's error if the lease has ended.
//   - ctx's error. If ctx ends during the call, the downgrade goes on. If it has ended before, the
//     lease stays a writer's.
//   - ErrShared if other leases are nested in this one, or it is nested in another. Then nothing
//     changes, since their holders rely on exclusion.
//   - an [*InvalidError] for permits, and for a lease of several names.
func (l *Lease) Downgrade(ctx context.Context) error {
	if l.lease != nil && (l.lease.Spec().Slots != nil || len(l.lease.Spec().Names) > 1) {
		return invalid("only the lease of a lock with one name can become a reader's")
	}
	return l.startAndWait(ctx, (*lease.Lease).Downgrade)
}

// errUpgrade means that the context holds the lock as a reader, and asks for it as a writer. It is
// an ErrOverlap.
var errUpgrade error = upgradeError{}

type upgradeError struct{}

func (upgradeError) Error() string {
	return "quorumlock: the context holds this lock as a reader, and the writer has to wait for all readers; release that lease first"
}

func (upgradeError) Unwrap() error { return ErrOverlap }

// ErrShared means that a writer's lease cannot become a reader's, since nested leases share it.
var ErrShared = lease.ErrShared

// asReader turns l into the lock of the readers, and returns it.
func (l *Lock) asReader() *Lock {
	l.spec.Reads, l.spec.HandOver = true, false
	return l
}
