package quorumlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// The errors of this package, for errors.Is. Most come wrapped in a type of this package that has
// details, for errors.As. The error of a single node is a *node.Error inside.
var (
	// ErrInvalid: the configuration or an argument is invalid. Nothing was sent.
	ErrInvalid = errors.New("quorumlock: invalid")
	// ErrHeld: another owner holds the lock. See [HeldError].
	ErrHeld = lease.ErrHeld
	// ErrNoQuorum: too few nodes answered for a decision. See [NoQuorumError].
	ErrNoQuorum = errors.New("quorumlock: no quorum")
	// ErrLost: the lease ended before it was released. See [LostError].
	ErrLost = lease.ErrLost
	// ErrReleased: the lease was released.
	ErrReleased = lease.ErrReleased
	// ErrHoldLimit: the lease reached its MaxHold and was released.
	ErrHoldLimit = lease.ErrHoldLimit
	// ErrLeaked: the lease was garbage collected without a Release, and was released. Only
	// [EndedEvent].Err has it, as no code can ask such a lease.
	ErrLeaked = lease.ErrLeaked
	// ErrClosed: the client is closed.
	ErrClosed = lease.ErrClosed
	// ErrOverlap: the context holds some but not all of the requested names, holds them under a weaker
	// rule, or holds so many permits of a semaphore that too few are left. The call would wait for its
	// own context.
	ErrOverlap = errors.New("quorumlock: the context holds this lock already, but only in part or under a weaker rule; acquire all of it first")
)

// NodeError is the error of one node within a failure.
type NodeError struct {
	// Node is the node's name.
	Node string
	// Err is a *node.Error. For a node that denied, it is a *HeldError, or an error that says that
	// the owner was released by force.
	Err error
}

// InvalidError lists all problems of a configuration or a call at once. It is an ErrInvalid.
type InvalidError struct {
	// Problems has one sentence for each problem.
	Problems []string
}

// zeroValue is the problem of a lock or lease that no client has made.
const zeroValue = "this is a zero value: a Client makes locks, and a lock makes leases"

// invalid returns an InvalidError of its own, which the caller may change.
func invalid(problems ...string) error { return &InvalidError{Problems: slices.Clone(problems)} }

// Error lists the problems.
func (e *InvalidError) Error() string {
	return "quorumlock: " + strings.Join(e.Problems, "; ")
}

// Is reports whether target is ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// HeldError says which owner holds a lock. It is an ErrHeld. Trying again later can help.
type HeldError struct {
	// Name is the lock in question; of a MultiLock, one name that is held.
	Name string
	// Owner is the owner on most of the nodes that denied. A contender in the middle of its attempt
	// looks the same. It is [node.Readers] if readers hold the lock and a writer asks, or if a
	// writer waits ahead of a reader. It is empty if the lock is free but reserved for an earlier
	// waiter. For permits of a semaphore whose size this client did not know, it may be "quorumlock:permits":
	// others hold them.
	Owner string
	// TTL is how long the lock stays held or reserved on those nodes unless it is renewed. It is
	// negative if the lock has no expiry there; this library always sets one.
	TTL time.Duration
	// Nodes are the names of the nodes that denied the attempt. It is empty if this client itself
	// holds the lock, as no node was asked then, and in the error of a single node.
	Nodes []string
	// permits is set for a semaphore. Some of its permits may be free, but too few.
	permits bool
}

// Error names the owner and the remaining time.
func (e *HeldError) Error() string {
	free, held := fmt.Sprintf("%q is free", e.Name), fmt.Sprintf("%q is held by", e.Name)
	if e.permits {
		free, held = fmt.Sprintf("permits of %q are free", e.Name), fmt.Sprintf("too few permits of %q are free: one is held by", e.Name)
	}
	left := e.TTL.Round(time.Millisecond)
	switch {
	case e.Owner == "":
		return fmt.Sprintf("quorumlock: %s but reserved for an earlier waiter for %v", free, left)
	case e.Owner == node.Readers:
		return fmt.Sprintf("quorumlock: %s readers for another %v unless renewed", held, left)
	case e.Owner == wire.OtherHolders:
		return fmt.Sprintf("quorumlock: %s others for another %v unless renewed", held, left)
	case e.TTL < 0:
		return fmt.Sprintf("quorumlock: %s %s, without expiry", held, DescribeOwner(e.Owner))
	default:
		return fmt.Sprintf("quorumlock: %s %s for another %v unless renewed", held, DescribeOwner(e.Owner), left)
	}
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// NoQuorumError says why too few nodes agreed. It is an ErrNoQuorum. It wraps the errors of the
// nodes, for errors.Is and errors.As. After a failed acquisition, the library undoes the
// grants of single nodes in the background. After a failed release, the lock is free at the latest when its
// TTL runs out. After a failed extension, the lease stays valid as long as it was before.
type NoQuorumError struct {
	Op Operation
	// Names are the names of the lock; none for connect, ready and list.
	Names []string
	// Need is how many of Total nodes had to agree. Agreed is how many had when the failure was
	// certain.
	Need, Agreed, Total int
	// Pending is how many nodes had not answered by then. Unless Agreed + Pending reaches Need, their
	// answers could not change the result.
	Pending int
	// Late is set if enough nodes agreed, but only after the TTL had passed.
	Late bool
	// Nodes has the reason of each node that did not agree.
	Nodes []NodeError
}

// Error counts the votes and gives each node's reason.
func (e *NoQuorumError) Error() string {
	var b strings.Builder
	what := string(e.Op)
	if len(e.Names) > 0 {
		what += " " + quoted(e.Names)
	}
	fmt.Fprintf(&b, "quorumlock: %s: no quorum: %d of %d nodes agreed, %d needed", what, e.Agreed, e.Total, e.Need)
	switch {
	case e.Pending == 0:
	case e.Agreed+e.Pending < e.Need:
		fmt.Fprintf(&b, ", and %d not waited for, as even with them there would be too few", e.Pending)
	default:
		fmt.Fprintf(&b, ", and %d had not answered when the call ended", e.Pending)
	}
	if e.Late {
		b.WriteString(", but too late: the TTL had passed")
	}
	writeReasons(&b, e.Nodes)
	return b.String()
}

// Unwrap returns ErrNoQuorum and the nodes' reasons, except denials.
func (e *NoQuorumError) Unwrap() []error { return withReasons(ErrNoQuorum, e.Nodes) }

// Operation is what was asked of the nodes, as errors, events, log lines and metrics name it. In events it is "acquire",
// "renew", "set latch", "count down", "await latch", "count latch" or "delete latch". In errors it may also be "release",
// "extend" (for a downgrade too), "inspect", "force-release", "once", "resize", "connect", "ready" or "list locks".
type Operation string

// LossCause says in one word why a lease was lost: for programs and metrics.
type LossCause string

// The causes of a loss.
const (
	// LossUnconfirmed: no quorum of nodes confirmed a renewal in time.
	LossUnconfirmed LossCause = "unconfirmed"
	// LossExpired: its TTL ran out, and the lock is Fixed.
	LossExpired LossCause = "expired"
	// LossForced: it was released by force.
	LossForced LossCause = "forced"
	// LossTaken: another owner holds the lock on a majority of the nodes.
	LossTaken LossCause = "taken"
	// LossGone: a Release found the lock on fewer nodes than the rule needs. Its names were deleted
	// by hand or by force, overwritten by another program, evicted, or expired early.
	LossGone LossCause = "gone"
)

// LostError says why a lease ended early. It is an ErrLost. The holder must stop using the resource
// that the lock protects.
type LostError struct {
	// Names are the names of the lock, and Owner the id of the lease.
	Names []string
	Owner string
	// Cause is the reason in one word, and Reason in a sentence.
	Cause  LossCause
	Reason string
	// TakenBy is, for LossTaken, the owner that has the lock now.
	TakenBy string
	// Paused is set if this process did not run, for at least this time, and so could not renew the
	// lease: it was stopped or starved, or the machine was asleep. The nodes may be well.
	Paused time.Duration
	// Nodes has the last error of each node that did not confirm.
	Nodes []NodeError
}

// Error gives the reason, and the last error of each node.
func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quorumlock: lease of %s lost: %s", quoted(e.Names), e.Reason)
	if e.Paused > 0 {
		fmt.Fprintf(&b, "; this process did not run for %v or more: it was stopped or starved, or the machine was asleep", roundPause(e.Paused))
	}
	writeReasons(&b, e.Nodes)
	return b.String()
}

// Unwrap returns ErrLost and the nodes' reasons, except denials.
func (e *LostError) Unwrap() []error { return withReasons(ErrLost, e.Nodes) }

// withReasons returns an error and the reasons of the nodes, without denials: an error is either ErrHeld or
// ErrNoQuorum, never both.
func withReasons(err error, nodes []NodeError) []error {
	errs := append(make([]error, 0, 1+len(nodes)), err)
	for _, n := range nodes {
		if !errors.Is(n.Err, ErrHeld) {
			errs = append(errs, n.Err)
		}
	}
	return errs
}

// writeReasons appends the reasons, without this package's prefix. Nodes with the same reason share
// one entry.
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

// roundPause returns a duration that is short to read.
func roundPause(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

func quoted(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("%q", names[0])
	}
	return fmt.Sprintf("%q", names)
}
