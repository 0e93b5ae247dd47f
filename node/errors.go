package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/respguard"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// The reasons for which an operation on one node fails. errors.Is finds them in an [*Error].
var (
	// ErrTimeout: the node did not answer in time. The operation may have happened.
	ErrTimeout = errors.New("timeout")
	// ErrUnreachable: the node could not be connected, or the connection broke.
	ErrUnreachable = errors.New("unreachable")
	// ErrAuth: the node rejects the user, the password, or the user's permissions. Permanent.
	ErrAuth = errors.New("access denied")
	// ErrWrongType: the lock's name is a key of another type. Permanent.
	ErrWrongType = errors.New("a key of another type has this name")
	// ErrRejected: the node answered with an error. It may be out of memory, a replica, or still loading.
	ErrRejected = errors.New("rejected")
	// ErrProtocol: the peer does not speak the protocol of a Redis server. Permanent.
	ErrProtocol = errors.New("protocol error")
	// ErrClosed: this process closed the node. Permanent.
	ErrClosed = errors.New("node is closed")
	// ErrMisconfigured: the server cannot be used as it is configured, or is another server than expected.
	// Causes are protected mode, a missing database and unknown commands. Permanent.
	ErrMisconfigured = errors.New("cannot be used as configured")
	// ErrRecovering: the node has lost its memory, or is new. It gives no new rights until all that it may
	// have forgotten has expired. The cause is a *[RecoveryError], except for a confirmation that does not count yet.
	ErrRecovering = errors.New("recovering")
	// ErrSettings: another program uses the same names with limits for which the Recovery of one of both is too short, or
	// the TTL exceeds the limits. The cause is a *[SettingsError]. Permanent.
	ErrSettings = errors.New("settings differ")
	// ErrLists: another program uses the node with a list of nodes that does not agree with the list of this program. Two
	// majorities of the lists need not share a node, so two owners could hold one lock. The cause is a *[ListsError].
	// Permanent: to wait helps only once no program uses the other list.
	ErrLists = errors.New("lists of nodes differ")
	// ErrClock: the clocks of this process and of the node are too far apart for fencing tokens. The cause is
	// a *[ClockError], unless the node reported a token further ahead than clocks may be. It is not Permanent,
	// since clocks get corrected; but Acquire gives up when too many nodes report it.
	ErrClock = errors.New("clocks differ")
	// ErrSameServer: another node of the set is the same server. The vote of that node counts, and the vote
	// of this one does not. Permanent.
	ErrSameServer = errors.New("another node is the same server")
	// ErrDown: the node was not asked, since it failed a moment ago. It is probed from time to time. The
	// cause is the failure.
	ErrDown = errors.New("not sent: the node is down")
	// ErrBusy: the node was not asked, since its queue is longer than it can serve.
	ErrBusy = errors.New("not sent: the queue of the node is full")
	// ErrCanceled: the caller's context ended first. The operation may have happened.
	ErrCanceled = errors.New("canceled")
)

// Error is a failure of one operation on one node.
type Error struct {
	// Node is the node's name.
	Node string
	// Op is the operation in words, as "acquire"; empty for connecting and probing.
	Op string
	// Reason is one of the errors above.
	Reason error
	// Err is the message of the connection or the server; nil if Reason says it all.
	Err error
}

// Error names the node, the operation, and the reason of the failure.
func (e *Error) Error() string {
	what := "connect"
	if e.Op != "" {
		what = e.Op
	}
	return fmt.Sprintf("node %s: %s: %s", e.Node, what, e.why())
}

// why returns the text of the reason and its cause. For an earlier failure of the same node, as behind
// ErrDown, it returns only the reason: the rest is known.
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

// serverText returns the text of a cause without the addresses of the connection. The local port always
// differs, and the same failure of several nodes should have the same words.
func serverText(err error) string {
	var broken *net.OpError
	if !errors.As(err, &broken) || broken.Source == nil {
		return err.Error()
	}
	return strings.Replace(err.Error(), broken.Error(), fmt.Sprintf("%s: %v", broken.Op, broken.Err), 1)
}

// Unwrap returns the reason and the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Err}
}

// Permanent reports whether the failure lasts until the node's configuration, its data or the call is
// changed. To ask again does not help before.
func (e *Error) Permanent() bool {
	switch e.Reason {
	case ErrAuth, ErrWrongType, ErrProtocol, ErrMisconfigured, ErrClosed, ErrSettings, ErrLists, ErrSameServer: //nolint:errorlint // a reason is never wrapped
		return true
	case ErrDown:
		var cause *Error
		return errors.As(e.Err, &cause) && cause.Permanent()
	default:
		return false
	}
}

// newError makes an [*Error] from a cause. A timeout or a cancellation below is not the caller's own, so
// errors.Is does not find it. For a key of another type the reason says it all.
func newError(node string, op wire.Kind, reason, err error) *Error {
	switch {
	case errors.Is(reason, ErrWrongType):
		err = nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = errors.New(serverText(err))
	case err != nil && len(err.Error()) > maxText:
		err = longError{err}
	}
	return &Error{Node: node, Op: op.String(), Reason: reason, Err: err}
}

// maxText is how many bytes an error shows of a text of a server. It has room for a name.
const maxText = 600

// longError is an error of which only the beginning is shown.
type longError struct{ error }

func (e longError) Error() string {
	text := e.error.Error()
	return fmt.Sprintf("%s ... (%d bytes)", strings.ToValidUTF8(text[:maxText], ""), len(text))
}

func (e longError) Unwrap() error { return e.error }

// failAll stores the same failure in all replies.
func failAll(node string, ops []wire.Op, replies []wire.Reply, reason, err error, unsent bool) {
	for i := range ops {
		replies[i] = wire.Reply{
			Err:    newError(node, ops[i].Kind, reason, err),
			Unsent: unsent,
		}
	}
}

// reasonOf classifies an error of rueidis or the server.
func reasonOf(err error) error {
	var reply replyError
	var broken respguard.Violation
	if reason := reasonOfRefusal(err); reason != nil {
		return reason
	}
	switch {
	case errors.Is(err, errMisconfiguredServer):
		return ErrMisconfigured
	case errors.Is(err, errReplica):
		return ErrRejected
	case errors.As(err, &broken), errors.Is(err, errProtocol), rueidis.IsRedisNil(err): // no script of this package replies nil
		return ErrProtocol
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case isTimeout(err):
		return ErrTimeout
	case errors.As(err, &reply):
		return reasonOfReply(string(reply))
	}
	if redisErr, ok := rueidis.IsRedisErr(err); ok {
		return reasonOfReply(redisErr.Error())
	}
	if rueidis.IsRedisNil(err) || rueidis.IsParseErr(err) || strings.HasPrefix(err.Error(), "received un") {
		return ErrProtocol // these are "received unknown" and "received unexpected"
	}
	return ErrUnreachable
}

// isTimeout reports whether an answer did not come in time.
func isTimeout(err error) bool {
	var netErr net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &netErr) && netErr.Timeout()
}

// severed reports whether the connection broke, or the peer closed it: no reply comes any more, and the
// server may have run the commands. A timeout does not count.
func severed(err error) bool {
	var broken *net.OpError
	return !isTimeout(err) &&
		(errors.Is(err, errMoved) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &broken))
}

// reasonOfReply classifies an error reply by its first word, which Redis uses as the error code.
func reasonOfReply(text string) error {
	word, _, _ := strings.Cut(text, " ")
	switch {
	case word == "WRONGPASS", word == "NOAUTH", word == "NOPERM",
		strings.Contains(text, "The user executing the script can't"), // Redis before 7.2
		strings.Contains(text, "ACL failure in script"),
		strings.Contains(text, "without any password configured"):
		return ErrAuth
	case word == "WRONGTYPE", strings.Contains(text, "WRONGTYPE"):
		return ErrWrongType
	case word == "DENIED", word == unseenByThis, word == "VERSION", word != strings.ToUpper(word) && lacksCommand(text), saysOneOf(text,
		"DB index is out of range",
		"not allowed after non deterministic commands", // lua-replicate-commands no, before 7.0
		"nonexistent global variable",                  // no cmsgpack
		"undeclared key",                               // Dragonfly
		"scripting support disabled",                   // Garnet
		"lua script for redis cluster",                 // a proxy of Alibaba Cloud, which accepts no variables as keys
		"No such master"):
		return ErrMisconfigured
	default:
		return ErrRejected
	}
}

// lacksCommand reports whether a server or a proxy refuses a command to every user, in the words of Redis, Valkey, Redis
// Enterprise, Upstash, miniredis, Alibaba Cloud and others.
func lacksCommand(text string) bool {
	return saysOneOf(strings.ToLower(text), "unknown command", "unknown redis command", "unsupported command",
		notFromScript, "command is not available", "not support")
}

func saysOneOf(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// endsConnection reports whether the connection must be given up after an error. A healthy server's errors do
// not end it, except the errors of a replica, and of a cluster's server that does not serve the slot: the master may
// be elsewhere by now.
func endsConnection(reason, err error) bool {
	switch reason {
	case ErrWrongType, ErrAuth, ErrRecovering, ErrSettings, ErrClock: //nolint:errorlint // a reason is never wrapped
		return false
	case ErrMisconfigured:
		return strings.HasPrefix(err.Error(), unseenByThis) // a new connection may see more
	case ErrRejected:
		return strings.Contains(err.Error(), "READONLY") || strings.HasPrefix(err.Error(), "MASTERDOWN") || leavesSlot(err)
	default:
		return true
	}
}
