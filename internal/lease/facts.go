package lease

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The ends of leases, and two kinds of errors. The public package has them under the same names.
var (
	ErrReleased  = errors.New("quorumlock: lease released")
	ErrHoldLimit = errors.New("quorumlock: lease reached its hold limit")
	ErrLeaked    = errors.New("quorumlock: lease leaked")
	ErrClosed    = errors.New("quorumlock: client closed")
	ErrShared    = errors.New("quorumlock: the lease is nested, or others are nested in it; release those first")
	// ErrHeld matches the errors of [Errors.Held], and ErrLost the errors of [Errors.Lost].
	ErrHeld = errors.New("quorumlock: held by another")
	ErrLost = errors.New("quorumlock: lease lost")
	// ErrCutShort marks the error of an attempt whose context ended before the votes decided.
	ErrCutShort = errors.New("the call ended before enough nodes answered")
)

// Errors makes the errors that callers see of facts. The errors of Held must match ErrHeld, and the
// errors of Lost ErrLost. The methods may be called with a mutex held.
type Errors interface {
	NoQuorum(Shortage) error
	// TooManyPermits is the error of a call that asks for more permits than there are.
	TooManyPermits(asked, size int) error
	Held(Holder) error
	Lost(Loss) error
}

// Holder is an owner that keeps others from a lock.
type Holder struct {
	// Name is the name of the lock. Owner is empty if the lock is free but reserved.
	Name, Owner string
	// TTL is how long it stays so unless it is renewed. It is negative without expiry.
	TTL time.Duration
	// Permits is set for a semaphore.
	Permits bool
	// Nodes are the names of the nodes that denied the attempt.
	Nodes []string
}

// NodeError is why a node did not confirm.
type NodeError struct {
	Node string
	Err  error
}

// Shortage says that too few nodes agreed to an operation.
type Shortage struct {
	Op   string
	Spec *Spec
	// Need of Total nodes had to agree. Agreed had, and Pending had not answered.
	Need, Agreed, Total, Pending int
	// Late is set if enough nodes agreed, but after the TTL had passed.
	Late  bool
	Nodes []NodeError
}

// Cause says in one word why a lease was lost.
type Cause string

// The causes of a loss. The public package has the same words.
const (
	Unconfirmed Cause = "unconfirmed"
	Expired     Cause = "expired"
	Forced      Cause = "forced"
	Taken       Cause = "taken"
	Gone        Cause = "gone"
)

// Loss says why a lease ended early.
type Loss struct {
	Spec  *Spec
	Owner string
	Cause Cause
	// Reason is the cause in a sentence; empty for Taken.
	Reason string
	// TakenBy is, for Taken, the owner that has the lock now.
	TakenBy string
	// Paused is how long this process did not run, at least, if that explains the loss; otherwise 0.
	Paused time.Duration
	Nodes  []NodeError
}

// Vote is the vote of a node on an acquisition or a renewal.
type Vote struct {
	Node string
	Op   wire.Kind
	Vote decision.Vote
	// Unsent is set if the node was not asked.
	Unsent bool
	// At is when the vote was counted, by the wall clock. Took is the time since the operation was
	// sent.
	At   time.Time
	Took time.Duration
	// Err is why the vote is not a grant.
	Err error
}

// ContextError returns the error of a context that has ended, together with its cause.
func ContextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return errors.Join(ctx.Err(), cause)
}

// GaveUp wraps the last error of a call, and why the call ended.
func GaveUp(err, why error) error { return &pair{err, ": gave up: ", why} }

// pair is two errors as one. It makes its text when it is asked for it: where many callers give up, the texts would
// cost more than the rest of their calls.
type pair struct {
	first   error
	between string
	second  error
}

func (p *pair) Error() string { return p.first.Error() + p.between + p.second.Error() }

func (p *pair) Unwrap() []error { return []error{p.first, p.second} }
