package measure

import (
	"context"
	"errors"
	"strings"
	"sync"

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

// backing records, for each lease that not all nodes back, how many more of them may fail. Clients that share the
// hooks use it concurrently.
type backing struct {
	mu    sync.Mutex
	spare map[string]int
}

// whole stands for a lease that all nodes back.
const whole = -1

type change struct{ from, to int }

func (b *backing) changed(e quorumlock.BackingEvent) change {
	spare := max(e.Have-e.Need, 0) // with fewer it is about to end
	if e.Have == e.Want {
		spare = whole
	}
	return b.move(e.Owner, spare)
}

func (b *backing) move(owner string, to int) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	from, ok := b.spare[owner]
	if !ok {
		from = whole
	}
	if to == whole {
		delete(b.spare, owner)
	} else {
		b.spare[owner] = to
	}
	return change{from, to}
}

// seen is the set of nodes or groups for which something is known.
type seen struct{ sync.Map }

func (s *seen) first(name string) bool {
	_, known := s.LoadOrStore(name, true)
	return !known
}

const maxGroups = 100

// groups assigns locks to groups, if a function for that is set.
type groups struct {
	sort  func(name string) string
	mu    sync.Mutex
	known map[string]bool
}

// of returns the group of a lock, by its first name.
func (g *groups) of(names []string) string {
	if g.sort == nil || len(names) == 0 {
		return ""
	}
	group := strings.ToValidUTF8(g.sort(names[0]), "\uFFFD") // names may be any bytes, and labels may not
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.known[group]:
	case len(g.known) >= maxGroups:
		return other
	default:
		g.known[group] = true
	}
	return group
}
