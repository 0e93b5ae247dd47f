package quorumlock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Hooks receive events, for metrics and logs. Every function may be nil. They are called one after
// another, in the order of events, on a goroutine of their own. A slow hook delays the next one,
// but no lease and no node; events that wait are kept in memory. Hooks may call this package, but
// not Close, which waits for them. A panic in a hook ends the program, as in any goroutine.
type Hooks struct {
	// Acquired: a lease was granted or handed over. The call that acquired it reports it. If the system
	// does not let its goroutine run for long, Renewed, and even Ended, may come before.
	Acquired func(AcquiredEvent)
	// Acquisition: a call to acquire has ended, with or without a lease, and all nodes that it
	// asked have voted. Slow nodes vote after the call has returned. So this event may come after
	// Acquired, and even after Ended.
	//
	// These calls are not reported: calls that return a nested lease or ErrOverlap;
	// calls with invalid arguments or a context that has ended, and calls on a closed client.
	Acquisition func(AcquisitionEvent)
	// Voted: a node has voted on an acquisition or a renewal, or it is certain that it will
	// not. There is one event for each node and fan-out, so a busy client reports very many.
	Voted func(VoteEvent)
	// AttemptFailed: an attempt to acquire ended without a lease. TryAcquire returns Err, or for
	// permits tries other slots. Acquire tries again, unless its context has ended or another attempt
	// cannot help.
	AttemptFailed func(AttemptFailedEvent)
	// Renewed: a quorum confirmed a renewal.
	Renewed func(RenewalEvent)
	// RenewalFailed: a renewal got no quorum. It is repeated until the lease ends.
	RenewalFailed func(RenewalEvent)
	// BackingChanged: more or fewer nodes back a lease than before. If all nodes back it from the
	// start, the first event comes when one no longer does.
	BackingChanged func(BackingEvent)
	// Ended: a lease has ended: released, lost, over its hold limit, leaked, or closed. Err is the
	// cause of its context.
	Ended func(EndedEvent)
	// LossFound: a Release has found that its lease had been lost before. It comes after Ended,
	// which reports a release: the loss is known only once the nodes have answered.
	LossFound func(LossFoundEvent)
	// Latch: a call on a latch has ended. Calls with invalid arguments or a context that has ended, and
	// calls on a closed client, are not reported.
	Latch func(LatchEvent)
	// NodeDown: a node does not answer, or refuses to serve at all: the password is wrong, or the
	// server may evict locks. It gets only probes until one succeeds.
	NodeDown func(node string, err error)
	// NodeUp: a probe has succeeded, and the node is in use again.
	NodeUp func(node string)
	// NodeRecovering: a node may have forgotten locks, and gives no new ones until it has recovered.
	NodeRecovering func(NodeRecoveringEvent)
}

// AcquiredEvent describes a grant.
type AcquiredEvent struct {
	Names []string
	Owner string
	Token uint64
	// Reads is set if it was granted to a reader; see [RWLock].
	Reads bool
	// Attempts is how many attempts there were; 0 if the lease was handed over before the first.
	Attempts int
	// HandedOver is set if another lease of this client was handed over, without the network.
	HandedOver bool
	// Waited is the time from the call to the grant.
	Waited time.Duration
}

// AcquisitionEvent describes a call to acquire, from beginning to end.
type AcquisitionEvent struct {
	// Context is the context of the call, for its values: it may have ended.
	Context context.Context
	Names   []string
	// Reads is set for a reader; see [RWLock].
	Reads bool
	// Began is the time of the call, by the wall clock of this process. Took is the time from then
	// to the grant or the failure.
	Began time.Time
	Took  time.Duration
	// Attempts is how many attempts there were. Asking is the part of Took that they needed; the
	// rest was waiting: for other holders, or between attempts.
	Attempts int
	Asking   time.Duration
	// Votes has the votes of all attempts, in the order of arrival. It keeps the last 128, and
	// Dropped counts the others.
	Votes   []VoteEvent
	Dropped int
	// Owner and Token are the lease's. HandedOver is set if another lease of this client was handed
	// over, without the network.
	Owner      string
	Token      uint64
	HandedOver bool
	// Err is the error that the call returned, or nil if there is a lease.
	Err error
}

// VoteEvent describes the vote of one node in one fan-out.
type VoteEvent struct {
	Node string
	// Op is "acquire" or "renew".
	Op    Operation
	Names []string
	// Owner is the owner id of the attempt; failed attempts have ids of their own.
	Owner string
	Vote  Vote
	// Unsent is set if the node was not asked, since it had just failed or had too much to do.
	Unsent bool
	// At is when the vote was counted, by the wall clock of this process. Took is the time since
	// the operation was sent, or until the call stopped waiting for it; 0 if Unsent.
	At   time.Time
	Took time.Duration
	// Err is why the vote is not a grant. If it is a denial, Err is a [*HeldError], or an error
	// that says that the owner was released by force. If it is unknown, Err is a [*node.Error].
	Err error
}

// Vote is the answer of one node to one question, as events and metrics name it.
type Vote string

// The votes.
const (
	// VoteGranted: the node confirmed the operation.
	VoteGranted Vote = "granted"
	// VoteDenied: the node refused, and gave nothing.
	VoteDenied Vote = "denied"
	// VoteUnknown: there is no usable answer, so the operation may have happened. It never counts as a grant, and
	// never proves that another owner holds the lock.
	VoteUnknown Vote = "unknown"
)

// AttemptFailedEvent describes an attempt that did not get the lock.
type AttemptFailedEvent struct {
	Names []string
	// Attempt counts from 1.
	Attempt int
	Err     error
}

// RenewalEvent describes a renewal.
type RenewalEvent struct {
	Names []string
	Owner string
	// Remaining is how long the lease is still valid.
	Remaining time.Duration
	// Err is why it got no quorum; nil if it did.
	Err error
}

// BackingEvent describes how many nodes back a lease.
type BackingEvent struct {
	Names []string
	Owner string
	// Have of Want nodes back the lease. It ends when they are fewer than Need.
	Have, Want, Need int
}

// NodeRecoveringEvent describes the recovery of a node.
type NodeRecoveringEvent struct {
	Node string
	// Since and Until are its beginning and its end, by the wall clock of this process.
	Since, Until time.Time
	// HadMarker is set if the node still had its marker, and so most of its data: it came back with
	// its disk, a replica took over, or its first replica attached.
	// Otherwise the node is new, came back empty, or was flushed.
	HadMarker bool
}

// EndedEvent describes the end of a lease.
type EndedEvent struct {
	Names []string
	Owner string
	// Token is the token of the lease. Leases that were handed over within the client have the same
	// owner, but different tokens.
	Token uint64
	// Held is the time since the grant, or since the hand-over to this lease.
	Held time.Duration
	// HandedOver is set if the lease was handed over to another waiter of this client.
	HandedOver bool
	Err        error
}

// LossFoundEvent describes a loss that the release of a lease has found.
type LossFoundEvent struct {
	Names []string
	Owner string
	Token uint64
	// Err is the error that Release returns: its Cause is LossGone, LossTaken or LossForced.
	Err *LostError
}

// MultiHooks combines hooks: each event goes to all of them, in this order. For example, a program
// can combine its own hooks with metrics. A function that is nil in all of them stays nil, and
// costs nothing.
func MultiHooks(all ...Hooks) (m Hooks) {
	for _, h := range all {
		m.Acquired = both(m.Acquired, h.Acquired)
		m.Acquisition = both(m.Acquisition, h.Acquisition)
		m.Voted = both(m.Voted, h.Voted)
		m.AttemptFailed = both(m.AttemptFailed, h.AttemptFailed)
		m.Renewed = both(m.Renewed, h.Renewed)
		m.RenewalFailed = both(m.RenewalFailed, h.RenewalFailed)
		m.BackingChanged = both(m.BackingChanged, h.BackingChanged)
		m.Ended = both(m.Ended, h.Ended)
		m.LossFound = both(m.LossFound, h.LossFound)
		m.Latch = both(m.Latch, h.Latch)
		m.NodeUp = both(m.NodeUp, h.NodeUp)
		m.NodeRecovering = both(m.NodeRecovering, h.NodeRecovering)
		switch first := m.NodeDown; {
		case first == nil:
			m.NodeDown = h.NodeDown
		case h.NodeDown != nil:
			m.NodeDown = func(node string, err error) {
				first(node, err)
				h.NodeDown(node, err)
			}
		}
	}
	return m
}

// both returns a function that calls two hooks, either of which may be nil.
func both[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(event E) {
		first(event)
		second(event)
	}
}

// reporter runs hooks and writes log lines, one after another in the order of events. It has a
// goroutine of its own while there is something to report. However long a hook runs, no lease and
// no node waits for it.
type reporter struct {
	mu    sync.Mutex
	queue []func()
	// running is closed when the goroutine ends, and is nil while there is none. A WaitGroup does
	// not fit: a report may be queued while a caller waits.
	running chan struct{}
}

func (r *reporter) enqueue(report func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, report)
	if r.running == nil {
		r.running = make(chan struct{})
		go r.run()
	}
}

func (r *reporter) run() {
	over := false
	defer func() {
		if !over { // a hook called runtime.Goexit, as FailNow of a test does; the others go on
			go r.run()
		}
	}()
	for report := r.next(); report != nil; report = r.next() {
		report()
	}
	over = true
}

func (r *reporter) next() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		close(r.running)
		r.queue, r.running = nil, nil
		return nil
	}
	report := r.queue[0]
	r.queue = r.queue[1:]
	return report
}

// wait returns when the reports that were queued before the call have run.
func (r *reporter) wait() {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running
	}
}

// report queues the call of a hook, unless the hook is nil.
func report[E any](r *reporter, hook func(E), event E) {
	if hook != nil {
		r.enqueue(func() { hook(event) })
	}
}

// LogHooks returns hooks that log every event except single votes.
//
//   - Level Warn is for events that need attention: a fan-out without a quorum, of an acquisition,
//     a renewal, or on a latch; a lease that some nodes no longer back; a latch that is set to
//     another number.
//   - Level Debug is for all other events. They include locks that others hold, and everything for
//     which the Logger of the [Config] gets a line anyway: leases that are lost, leak, or reach their
//     MaxHold, nodes that fail, answer again, or recover. So one logger can serve both.
//
// The keys are, where an event has them: names, owner, token, reads, attempt, attempts, waited,
// took, handed_over, held, remaining, have, want, need, node, since, until, had_marker, op, name,
// id, rounds, err. The line for a call without a lease is logged with the context of the call, in
// which handlers find its trace.
func LogHooks(logger *slog.Logger) Hooks {
	in := func(ctx context.Context, failure bool, msg string, args ...any) {
		level := slog.LevelDebug
		if failure {
			level = slog.LevelWarn
		}
		logger.Log(ctx, level, "quorumlock: "+msg, args...)
	}
	log := func(failure bool, msg string, args ...any) { in(context.Background(), failure, msg, args...) }
	return Hooks{
		Acquired: func(e AcquiredEvent) {
			log(false, "lease granted", "names", e.Names, "owner", e.Owner, "token", e.Token, "attempts", e.Attempts, "waited", e.Waited,
				"reads", e.Reads, "handed_over", e.HandedOver)
		},
		Acquisition: func(e AcquisitionEvent) {
			if e.Err != nil { // otherwise Acquired reports it
				in(e.Context, false, "no lease", "names", e.Names, "attempts", e.Attempts, "took", e.Took, "reads", e.Reads, "err", e.Err)
			}
		},
		AttemptFailed: func(e AttemptFailedEvent) { // a lock that others hold is no failure
			log(errors.Is(e.Err, ErrNoQuorum), "attempt failed", "names", e.Names, "attempt", e.Attempt, "err", e.Err)
		},
		Renewed: func(e RenewalEvent) {
			log(false, "lease renewed", "names", e.Names, "owner", e.Owner, "remaining", e.Remaining)
		},
		RenewalFailed: func(e RenewalEvent) {
			log(true, "renewal failed", "names", e.Names, "owner", e.Owner, "remaining", e.Remaining, "err", e.Err)
		},
		BackingChanged: func(e BackingEvent) {
			log(e.Have < e.Want, "backing changed", "names", e.Names, "owner", e.Owner, "have", e.Have, "want", e.Want, "need", e.Need)
		},
		Ended: func(e EndedEvent) {
			log(false, "lease ended", "names", e.Names, "owner", e.Owner, "token", e.Token, "held", e.Held, "handed_over", e.HandedOver, "err", e.Err)
		},
		LossFound: func(e LossFoundEvent) {
			log(false, "lease lost before its release", "names", e.Names, "owner", e.Owner, "token", e.Token, "err", e.Err)
		},
		Latch: func(e LatchEvent) {
			failure := errors.Is(e.Err, ErrNoQuorum) || errors.Is(e.Err, ErrLatchSet)
			log(failure, "latch", "op", string(e.Op), "name", e.Name, "id", e.ID, "rounds", e.Rounds, "took", e.Took, "err", e.Err)
		},
		NodeDown: func(node string, err error) { log(false, "node failed", "node", node, "err", err) },
		NodeUp:   func(node string) { log(false, "node is in use again", "node", node) },
		NodeRecovering: func(e NodeRecoveringEvent) {
			log(false, "node recovers", "node", e.Node, "since", e.Since, "until", e.Until, "had_marker", e.HadMarker)
		},
	}
}
