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
	// These calls are not reported: calls that return a nested lease, ErrOverlap or ErrUpgrade;
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
	Renewed func(RenewedEvent)
	// RenewalFailed: a renewal got no quorum. It is repeated until the lease ends.
	RenewalFailed func(RenewalFailedEvent)
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
	// Op is OpAcquire or OpRenew.
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

// RenewedEvent describes a renewal that a quorum confirmed.
type RenewedEvent struct {
	Names []string
	Owner string
	// Remaining is how long the lease is still valid.
	Remaining time.Duration
}

// RenewalFailedEvent describes a renewal without a quorum.
type RenewalFailedEvent struct {
	Names []string
	Owner string
	// Remaining is how long the lease is still valid.
	Remaining time.Duration
	Err       error
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
	// its disk, a replica took over, its first replica attached, or its limits were changed.
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
func MultiHooks(all ...Hooks) Hooks {
	return Hooks{
		Acquired:       multi(all, func(h Hooks) func(AcquiredEvent) { return h.Acquired }),
		Acquisition:    multi(all, func(h Hooks) func(AcquisitionEvent) { return h.Acquisition }),
		Voted:          multi(all, func(h Hooks) func(VoteEvent) { return h.Voted }),
		AttemptFailed:  multi(all, func(h Hooks) func(AttemptFailedEvent) { return h.AttemptFailed }),
		Renewed:        multi(all, func(h Hooks) func(RenewedEvent) { return h.Renewed }),
		RenewalFailed:  multi(all, func(h Hooks) func(RenewalFailedEvent) { return h.RenewalFailed }),
		BackingChanged: multi(all, func(h Hooks) func(BackingEvent) { return h.BackingChanged }),
		Ended:          multi(all, func(h Hooks) func(EndedEvent) { return h.Ended }),
		LossFound:      multi(all, func(h Hooks) func(LossFoundEvent) { return h.LossFound }),
		Latch:          multi(all, func(h Hooks) func(LatchEvent) { return h.Latch }),
		NodeDown:       multiDown(all),
		NodeUp:         multi(all, func(h Hooks) func(string) { return h.NodeUp }),
		NodeRecovering: multi(all, func(h Hooks) func(NodeRecoveringEvent) { return h.NodeRecovering }),
	}
}

// multi returns a function that calls the given hook of each, or nil.
func multi[E any](all []Hooks, of func(Hooks) func(E)) func(E) {
	var set []func(E)
	for _, h := range all {
		if f := of(h); f != nil {
			set = append(set, f)
		}
	}
	switch len(set) {
	case 0:
		return nil
	case 1:
		return set[0]
	}
	return func(event E) {
		for _, f := range set {
			f(event)
		}
	}
}

// multiDown is multi for NodeDown, which takes two arguments.
func multiDown(all []Hooks) func(node string, err error) {
	type down struct {
		node string
		err  error
	}
	one := multi(all, func(h Hooks) func(down) {
		if h.NodeDown == nil {
			return nil
		}
		return func(d down) { h.NodeDown(d.node, d.err) }
	})
	if one == nil {
		return nil
	}
	return func(node string, err error) { one(down{node, err}) }
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

// enqueue queues a report.
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
	l := logHooks{logger}
	return Hooks{
		Acquired:       l.acquired,
		Acquisition:    l.acquisition,
		AttemptFailed:  l.attemptFailed,
		Renewed:        l.renewed,
		RenewalFailed:  l.renewalFailed,
		BackingChanged: l.backingChanged,
		Ended:          l.ended,
		LossFound:      l.lossFound,
		Latch:          l.latch,
		NodeDown: func(node string, err error) {
			l.log(slog.LevelDebug, "node failed", slog.String("node", node), slog.Any("err", err))
		},
		NodeUp:         func(node string) { l.log(slog.LevelDebug, "node is in use again", slog.String("node", node)) },
		NodeRecovering: l.nodeRecovering,
	}
}

// logHooks writes events to a logger.
type logHooks struct{ logger *slog.Logger }

func (l logHooks) log(level slog.Level, msg string, attrs ...slog.Attr) {
	l.logger.LogAttrs(context.Background(), level, "quorumlock: "+msg, attrs...)
}

// levelOf returns the level of an event. A lock that others hold is no failure.
func levelOf(failure bool) slog.Level {
	if failure {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (l logHooks) acquired(e AcquiredEvent) {
	l.log(slog.LevelDebug, "lease granted", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Int("attempts", e.Attempts), slog.Duration("waited", e.Waited),
		slog.Bool("reads", e.Reads), slog.Bool("handed_over", e.HandedOver))
}

func (l logHooks) acquisition(e AcquisitionEvent) {
	if e.Err == nil {
		return // Acquired has reported it
	}
	l.logger.LogAttrs(e.Context, slog.LevelDebug, "quorumlock: no lease", slog.Any("names", e.Names),
		slog.Int("attempts", e.Attempts), slog.Duration("took", e.Took), slog.Bool("reads", e.Reads), slog.Any("err", e.Err))
}

func (l logHooks) attemptFailed(e AttemptFailedEvent) {
	l.log(levelOf(errors.Is(e.Err, ErrNoQuorum)), "attempt failed",
		slog.Any("names", e.Names), slog.Int("attempt", e.Attempt), slog.Any("err", e.Err))
}

func (l logHooks) renewed(e RenewedEvent) {
	l.log(slog.LevelDebug, "lease renewed",
		slog.Any("names", e.Names), slog.String("owner", e.Owner), slog.Duration("remaining", e.Remaining))
}

func (l logHooks) renewalFailed(e RenewalFailedEvent) {
	l.log(slog.LevelWarn, "renewal failed", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Duration("remaining", e.Remaining), slog.Any("err", e.Err))
}

func (l logHooks) backingChanged(e BackingEvent) {
	l.log(levelOf(e.Have < e.Want), "backing changed", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Int("have", e.Have), slog.Int("want", e.Want), slog.Int("need", e.Need))
}

func (l logHooks) ended(e EndedEvent) {
	l.log(slog.LevelDebug, "lease ended", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Duration("held", e.Held), slog.Bool("handed_over", e.HandedOver), slog.Any("err", e.Err))
}

func (l logHooks) lossFound(e LossFoundEvent) {
	l.log(slog.LevelDebug, "lease lost before its release", slog.Any("names", e.Names), slog.String("owner", e.Owner),
		slog.Uint64("token", e.Token), slog.Any("err", e.Err))
}

func (l logHooks) latch(e LatchEvent) {
	l.log(levelOf(errors.Is(e.Err, ErrNoQuorum) || errors.Is(e.Err, ErrLatchSet)), "latch", slog.String("op", string(e.Op)), slog.String("name", e.Name),
		slog.String("id", e.ID), slog.Int("rounds", e.Rounds), slog.Duration("took", e.Took), slog.Any("err", e.Err))
}

func (l logHooks) nodeRecovering(e NodeRecoveringEvent) {
	l.log(slog.LevelDebug, "node recovers", slog.String("node", e.Node), slog.Time("since", e.Since),
		slog.Time("until", e.Until), slog.Bool("had_marker", e.HadMarker))
}
