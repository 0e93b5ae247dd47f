package measure

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// other is the value for everything without a value of its own, as in the semantic conventions.
const other = "_OTHER"

// reasons are the values of error.type for answers of nodes.
var reasons = map[error]string{
	node.ErrTimeout:       "timeout",
	node.ErrUnreachable:   "unreachable",
	node.ErrAuth:          "auth",
	node.ErrWrongType:     "wrong_type",
	node.ErrRejected:      "rejected",
	node.ErrProtocol:      "protocol",
	node.ErrClosed:        "closed",
	node.ErrMisconfigured: "misconfigured",
	node.ErrRecovering:    "recovering",
	node.ErrSettings:      "settings",
	node.ErrLists:         "lists",
	node.ErrClock:         "clock",
	node.ErrSameServer:    "same_server",
	node.ErrDown:          "down",
	node.ErrBusy:          "busy",
	node.ErrCanceled:      "canceled",
}

// failures are the values of error.type for results of calls, in the order of precedence. A call that gave up is
// described by what prevented it.
var failures = []struct {
	err  error
	kind string
}{
	{quorumlock.ErrClosed, "closed"},
	{quorumlock.ErrHeld, "held"},
	{quorumlock.ErrNoQuorum, "no_quorum"},
	{quorumlock.ErrOverlap, "overlap"},
	{quorumlock.ErrInvalid, "invalid"},
	{quorumlock.ErrLatchNotSet, "latch_not_set"},
	{quorumlock.ErrLatchDeleted, "latch_deleted"},
	{quorumlock.ErrLatchSet, "latch_set"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// FailureOf returns the error.type of a call's error.
func FailureOf(err error) string {
	gaveUp := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	var none *quorumlock.NoQuorumError
	errors.As(err, &none)
	hasty := gaveUp && none != nil && len(none.Nodes) == 0 // No node caused the failure.
	for _, f := range failures {
		if hasty && f.kind == "no_quorum" {
			continue
		}
		if errors.Is(err, f.err) {
			return f.kind
		}
	}
	return other
}

// ReasonOf returns the error.type of a node's error. A node that is down has the type of the failure that made it down,
// because an operator mends that.
func ReasonOf(err error) string {
	var failed *node.Error
	reason := other
	for errors.As(err, &failed) && reasons[failed.Reason] != "" {
		reason, err = reasons[failed.Reason], failed.Err
		if failed.Reason != node.ErrDown { //nolint:errorlint // a reason is never wrapped
			return reason
		}
		if errors.Is(err, node.ErrTimeout) {
			return reasons[node.ErrTimeout]
		}
	}
	return reason
}

// ends are the values of quorumlock.lease.end, except the causes of a LostError.
var ends = []struct {
	err error
	end string
}{
	{quorumlock.ErrReleased, "released"},
	{quorumlock.ErrClosed, "closed"},
	{quorumlock.ErrHoldLimit, "hold_limit"},
	{quorumlock.ErrLeaked, "leaked"},
}

// losses are the values of quorumlock.lease.end that count as a loss of the lease.
var losses = []string{
	string(quorumlock.LossUnconfirmed), string(quorumlock.LossExpired), string(quorumlock.LossForced),
	string(quorumlock.LossTaken), string(quorumlock.LossGone), "hold_limit", "leaked",
}

// endOf describes the end of a lease in one word.
func endOf(err error) string {
	var lost *quorumlock.LostError
	if errors.As(err, &lost) {
		return string(lost.Cause)
	}
	for _, e := range ends {
		if errors.Is(err, e.err) {
			return e.end
		}
	}
	return other
}
