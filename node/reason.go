package node

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/respguard"
)

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
	case word == "DENIED", strings.Contains(text, "DB index is out of range"), strings.Contains(text, "unknown command"),
		strings.Contains(text, "Unknown Redis command"), strings.Contains(text, "Unknown command called from script"), // Valkey
		strings.Contains(text, "not allowed after non deterministic commands"), // lua-replicate-commands no, before 7.0
		strings.Contains(text, "nonexistent global variable"),                  // no cmsgpack
		strings.Contains(text, "undeclared key"),                               // Dragonfly
		strings.Contains(text, notFromScript), word == unseenByThis,
		strings.Contains(text, "No such master"):
		return ErrMisconfigured
	default:
		return ErrRejected
	}
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
