package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// What can go wrong, for errors.Is. Most come wrapped in a type of this package that
// says more, for errors.As; what a single node said is a *node.Error within.
var (
	// ErrInvalid: the configuration, or an argument, makes no sense. Nothing was sent
	// (but a Release without a context does release).
	ErrInvalid = errors.New("invalid")
	// ErrHeld: somebody else holds the lock. See [HeldError].
	ErrHeld = errors.New("held by another")
	// ErrNoQuorum: too few nodes answered for any decision. See [NoQuorumError].
	ErrNoQuorum = errors.New("no quorum")
	// ErrLost: the lease ended before it was released. See [LostError].
	ErrLost = errors.New("lease lost")
	// ErrReleased: the lease was released.
	ErrReleased = errors.New("quorumlock: lease released")
	// ErrHoldLimit: the lease reached its MaxHold and was released.
	ErrHoldLimit = errors.New("quorumlock: lease reached its hold limit")
	// ErrLeaked: the lease was garbage collected without a Release, and was released.
	ErrLeaked = errors.New("quorumlock: lease leaked")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("quorumlock: client closed")
	// ErrOverlap: the context holds some, but not all, of the names that it asks for,
	// or holds them under a weaker rule: to wait would be to wait for itself.
	ErrOverlap = errors.New("quorumlock: the context holds this lock already, but only in part or under a weaker rule; acquire all of it first")
)

// NodeError is what one node contributed to a failure.
type NodeError struct {
	// Node is the node's name.
	Node string
	// Err is a *node.Error, or for a node that denied a *HeldError, or an error that says
	// that the owner was released by force.
	Err error
}

// InvalidError names everything that is wrong with a configuration or a call at once.
// It is an ErrInvalid.
type InvalidError struct {
	// Problems has one sentence for each.
	Problems []string
}

// Error lists the problems.
func (e *InvalidError) Error() string {
	return "quorumlock: " + strings.Join(e.Problems, "; ")
}

// Is makes it an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// HeldError says who holds a lock. It is an ErrHeld. Trying again later can help.
type HeldError struct {
	// Name is the lock in question; of a MultiLock, one that is held.
	Name string
	// Owner is who holds it on most of the nodes that denied; another contender in
	// the middle of its attempt looks the same. It is [node.Readers] if readers hold it, and a
	// writer asks, or a reader before whom a writer waits. It is empty if nobody holds it, and it is
	// left to somebody who waits for it and came before.
	Owner string
	// TTL is how long it stays held on those nodes if it is not renewed. It is
	// negative if it has no expiry there, which is not of this library's doing.
	TTL time.Duration
	// permits is set for a semaphore, of which some permits may be free, but too few.
	permits bool
}

// Error says by whom and for how long.
func (e *HeldError) Error() string {
	free, held := fmt.Sprintf("%q is free", e.Name), fmt.Sprintf("%q is held by", e.Name)
	if e.permits {
		free, held = fmt.Sprintf("permits of %q are free", e.Name), fmt.Sprintf("too few permits of %q are free: one is held by", e.Name)
	}
	left := e.TTL.Round(time.Millisecond)
	switch {
	case e.Owner == "":
		return fmt.Sprintf("quorumlock: %s, and left for another %v to somebody who came before", free, left)
	case e.Owner == node.Readers:
		return fmt.Sprintf("quorumlock: %s readers for another %v unless renewed", held, left)
	case e.TTL < 0:
		return fmt.Sprintf("quorumlock: %s %s, without expiry", held, DescribeOwner(e.Owner))
	default:
		return fmt.Sprintf("quorumlock: %s %s for another %v unless renewed", held, DescribeOwner(e.Owner), left)
	}
}

// Is makes it an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// NoQuorumError says why too few nodes agreed. It is an ErrNoQuorum, and what each
// node said is found in it with errors.Is and errors.As. Of an acquisition nothing is
// left behind; a release that ends so frees the lock when its TTL runs out at the
// latest; an extension that ends so leaves the lease valid as long as it was.
type NoQuorumError struct {
	// Op is what was tried: acquire, extend, release, inspect, force-release, connect.
	Op string
	// Names are the names of the lock; none for connect.
	Names []string
	// Need is how many of Total nodes had to agree, and Agreed how many had when it
	// was clear that too few would.
	Need, Agreed, Total int
	// Pending is how many had not answered by then, and could not have changed it.
	Pending int
	// Late is set if enough nodes agreed, but only when their TTL was over already.
	Late bool
	// Nodes has the reason of each node that did not.
	Nodes []NodeError
}

// Error counts the votes and gives each node's reason.
func (e *NoQuorumError) Error() string {
	var b strings.Builder
	what := e.Op
	if len(e.Names) > 0 {
		what += " " + quoted(e.Names)
	}
	fmt.Fprintf(&b, "quorumlock: %s: no quorum: %d of %d nodes agreed, %d needed", what, e.Agreed, e.Total, e.Need)
	if e.Pending > 0 {
		fmt.Fprintf(&b, ", %d not waited for", e.Pending)
	}
	if e.Late {
		b.WriteString(", but too late: the TTL had passed")
	}
	writeReasons(&b, e.Nodes)
	return b.String()
}

// Is makes it an ErrNoQuorum.
func (e *NoQuorumError) Is(target error) bool { return target == ErrNoQuorum }

// Unwrap gives the nodes' reasons.
func (e *NoQuorumError) Unwrap() []error { return reasons(e.Nodes) }

// LossCause is why a lease was lost, in one word: for programs and metrics.
type LossCause string

// The causes of a loss.
const (
	// LossUnconfirmed: no quorum of nodes confirmed a renewal in time.
	LossUnconfirmed LossCause = "unconfirmed"
	// LossExpired: its TTL ran out, and the lock is Fixed.
	LossExpired LossCause = "expired"
	// LossForced: it was released by force.
	LossForced LossCause = "forced"
	// LossTaken: another owner has it on a majority of the nodes.
	LossTaken LossCause = "taken"
	// LossGone: a Release found that fewer nodes still had it than the rule asks for: names
	// were deleted by hand or by force, evicted, or ran out early.
	LossGone LossCause = "gone"
)

// LostError says why a lease ended early. It is an ErrLost. Whoever holds it must stop
// what the lock protects.
type LostError struct {
	// Names are the names of the lock, and Owner the id of the lease.
	Names []string
	Owner string
	// Cause says what happened in one word, Reason in several.
	Cause  LossCause
	Reason string
	// TakenBy is, for LossTaken, the owner that has the lock now.
	TakenBy string
	// Nodes has what the nodes that did not confirm said last.
	Nodes []NodeError
}

// Error says why, and what each node said last.
func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quorumlock: lease of %s lost: %s", quoted(e.Names), e.Reason)
	writeReasons(&b, e.Nodes)
	return b.String()
}

// Is makes it an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap gives the nodes' reasons.
func (e *LostError) Unwrap() []error { return reasons(e.Nodes) }

// reasons are what the nodes said, denials left out: an error is either ErrHeld or
// ErrNoQuorum, never both.
func reasons(nodes []NodeError) []error {
	errs := make([]error, 0, len(nodes))
	for _, n := range nodes {
		if !errors.Is(n.Err, ErrHeld) {
			errs = append(errs, n.Err)
		}
	}
	return errs
}

// writeReasons adds each reason, without this package's prefix, once for all nodes that
// gave it: what they have in common is told at a glance.
func writeReasons(b *strings.Builder, nodes []NodeError) {
	var texts []string
	by := make(map[string][]string)
	for _, n := range nodes {
		text := strings.TrimPrefix(n.Err.Error(), "quorumlock: ")
		text = strings.TrimPrefix(text, "node "+n.Node+": ")
		if by[text] == nil {
			texts = append(texts, text)
		}
		by[text] = append(by[text], n.Node)
	}
	for i, text := range texts {
		sep := "; "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(b, "%s%s: %s", sep, strings.Join(by[text], ", "), text)
	}
	if len(nodes) > 0 {
		b.WriteByte(')')
	}
}

func quoted(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("%q", names[0])
	}
	return fmt.Sprintf("%q", names)
}

// whyDone is the error of a context that has ended, together with its cause.
func whyDone(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return errors.Join(ctx.Err(), cause)
}
