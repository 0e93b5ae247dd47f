package quorumotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// Attributes of metrics and spans. Failures also have error.type.
const (
	keyGroup      = attribute.Key("quorumlock.lock.group")
	keyNames      = attribute.Key("quorumlock.lock.names")
	keyReads      = attribute.Key("quorumlock.lock.reads")
	keyOwner      = attribute.Key("quorumlock.lease.owner")
	keyToken      = attribute.Key("quorumlock.lease.token")
	keyHandedOver = attribute.Key("quorumlock.lease.handed_over")
	keyEnd        = attribute.Key("quorumlock.lease.end")
	keySpare      = attribute.Key("quorumlock.lease.spare")
	keyAttempts   = attribute.Key("quorumlock.acquire.attempts")
	keyAsking     = attribute.Key("quorumlock.acquire.asking")
	keyNode       = attribute.Key("quorumlock.node.name")
	keyOperation  = attribute.Key("quorumlock.operation")
	keyVote       = attribute.Key("quorumlock.vote")
	keyUnsent     = attribute.Key("quorumlock.vote.unsent")
	keyTook       = attribute.Key("quorumlock.vote.duration")
	keyRestarted  = attribute.Key("quorumlock.node.restarted")
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

// failureOf returns the error.type of a call's error.
func failureOf(err error) string {
	gaveUp := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	none, _ := errors.AsType[*quorumlock.NoQuorumError](err)
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

// reasonOf returns the error.type of a node's error.
func reasonOf(err error) string {
	if failed, ok := errors.AsType[*node.Error](err); ok {
		if reason, ok := reasons[failed.Reason]; ok {
			return reason
		}
	}
	return other
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
	if lost, ok := errors.AsType[*quorumlock.LostError](err); ok {
		return string(lost.Cause)
	}
	for _, e := range ends {
		if errors.Is(err, e.err) {
			return e.end
		}
	}
	return other
}

// failed returns the attribute of a failure.
func failed(kind string) attribute.KeyValue { return semconv.ErrorTypeKey.String(kind) }

// maxGroups bounds the number of lock groups.
const maxGroups = 100

// groups assigns locks to groups, if a function for that is set.
type groups struct {
	sort  func(name string) string
	mu    sync.Mutex
	known map[string]bool
}

// with returns the attributes of a lock's metric: these, and the group, if there are groups.
func (g *groups) with(names []string, attrs ...attribute.KeyValue) attribute.Set {
	if group := g.of(names); group != "" {
		attrs = append(attrs, keyGroup.String(group))
	}
	return attribute.NewSet(attrs...)
}

// of returns the group of a lock, by its first name.
func (g *groups) of(names []string) string {
	if g.sort == nil || len(names) == 0 {
		return ""
	}
	group := g.sort(names[0])
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.known[group]:
	case len(g.known) >= maxGroups:
		return other
	case g.known == nil:
		g.known = map[string]bool{group: true}
	default:
		g.known[group] = true
	}
	return group
}
