package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// What can go wrong with one node. Each is found with errors.Is in an [*Error].
var (
	// ErrTimeout: the node did not answer in time. The operation may have happened.
	ErrTimeout = errors.New("no answer in time")
	// ErrUnreachable: no connection could be made, or it broke.
	ErrUnreachable = errors.New("unreachable")
	// ErrAuth: the node rejects the user, the password, or the user's permissions.
	// Permanent.
	ErrAuth = errors.New("access denied")
	// ErrWrongType: a key of another type stands at the lock's name. Permanent.
	ErrWrongType = errors.New("a key of another type stands at this name")
	// ErrRejected: the node answered with an error, such as being out of memory, a
	// replica, or still loading.
	ErrRejected = errors.New("rejected")
	// ErrProtocol: what answered does not speak as a Redis server does. Permanent.
	ErrProtocol = errors.New("not an answer of a Redis server")
	// ErrClosed: the node was closed by this process. Permanent.
	ErrClosed = errors.New("node is closed")
	// ErrMisconfigured: the server cannot be used as it is set up, or is not what it
	// was taken for: protected mode, no such database, unknown commands. Permanent.
	ErrMisconfigured = errors.New("cannot be used as configured")
	// ErrRecovering: the node has lost its memory, or is new, and gives no new rights
	// until all that it may have forgotten has run out. The cause is a
	// *[RecoveryError].
	ErrRecovering = errors.New("recovering")
	// ErrSettings: the node was set up for clients with other limits, or the TTL is
	// over them. The cause is a *[SettingsError]. Permanent.
	ErrSettings = errors.New("settings differ")
	// ErrClock: the clocks of this process and of the node are too far apart for
	// fencing tokens. The cause is a *[ClockError]. It is not Permanent, as clocks get
	// corrected; but Acquire gives up when too many nodes say it.
	ErrClock = errors.New("clocks differ")
	// ErrSameServer: another node of the set is the same server. Its vote counts, this
	// one's does not. Permanent.
	ErrSameServer = errors.New("another node is the same server")
	// ErrDown: not asked, because the node failed just before; it is probed from time
	// to time. The cause is the failure.
	ErrDown = errors.New("not asked, as it failed just before")
	// ErrBusy: not asked, because more is waiting for the node than it keeps up with.
	ErrBusy = errors.New("not asked, as too much is waiting for it")
	// ErrCanceled: the caller's context ended first. The operation may have
	// happened.
	ErrCanceled = errors.New("canceled")
)

// Error is a failure of one operation on one node.
type Error struct {
	// Node is the node's name.
	Node string
	// Op says what was asked; 0 for connecting and probing.
	Op Kind
	// Reason is one of the errors above.
	Reason error
	// Err is what the connection or the server said; nil where Reason says it all.
	Err error
}

// Error says which node, what was asked, and why it failed.
func (e *Error) Error() string {
	what := "connect"
	if e.Op != 0 {
		what = e.Op.String()
	}
	return fmt.Sprintf("node %s: %s: %s", e.Node, what, e.why())
}

// why is the reason and what is behind it. Of an earlier failure of the same node, as
// behind ErrDown, only the reason is news.
func (e *Error) why() string {
	var before *Error
	switch {
	case e.Err == nil:
		return e.Reason.Error()
	case errors.As(e.Err, &before) && before.Node == e.Node:
		return fmt.Sprintf("%v: %s", e.Reason, before.why())
	default:
		return fmt.Sprintf("%v: %s", e.Reason, serverText(e.Err))
	}
}

// serverText is what a cause says, without the ends of a connection that was open: the port of this side
// is never the same, and one failure of several nodes is to be told in the same words.
func serverText(err error) string {
	var broken *net.OpError
	if !errors.As(err, &broken) || broken.Source == nil {
		return err.Error()
	}
	return strings.Replace(err.Error(), broken.Error(), fmt.Sprintf("%s: %v", broken.Op, broken.Err), 1)
}

// Unwrap gives errors.Is and errors.As the reason and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// Permanent reports whether asking again cannot help before somebody changes the
// node's configuration, its data, or the call.
func (e *Error) Permanent() bool {
	switch e.Reason {
	case ErrAuth, ErrWrongType, ErrProtocol, ErrMisconfigured, ErrClosed, ErrSettings, ErrSameServer: //nolint:errorlint // a reason is never wrapped
		return true
	case ErrDown:
		var cause *Error
		return errors.As(e.Err, &cause) && cause.Permanent()
	default:
		return false
	}
}

// newError keeps of a cause what callers can use. A timeout or a cancellation below is
// not the caller's own, so its identity is not passed on; and about a key of another
// type the reason says it all.
func newError(node string, op Kind, reason, err error) *Error {
	switch {
	case errors.Is(reason, ErrWrongType):
		err = nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = errors.New(serverText(err))
	}
	return &Error{Node: node, Op: op, Reason: reason, Err: err}
}

// failAll answers every operation with one failure.
func failAll(node string, ops []Op, replies []Reply, reason, err error, unsent bool) {
	for i := range ops {
		replies[i] = Reply{
			Err:    newError(node, ops[i].Kind, reason, err),
			Unsent: unsent,
		}
	}
}
