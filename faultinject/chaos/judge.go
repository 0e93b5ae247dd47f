package chaos

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/quorum"
)

func (a *activeRun) judge(whole bool) error {
	h, err := history.ReadDir(a.Dir)
	if err != nil {
		return err
	}
	if a.report.Drawn, err = a.drawn(); err != nil {
		return err
	}
	result := history.Check(h, time.Minute)
	a.report.History, a.report.Counts, a.report.Objects = h, result.Total, result.Objects
	a.tally(h, result)
	a.blame(h, result)
	for _, text := range a.resource.broken {
		if !a.TokensOnly {
			a.report.violated("once: %s", text)
		}
	}
	if whole {
		a.progress(h)
		a.recovered(h)
	}
	return nil
}

func (a *activeRun) blame(h *history.History, result *history.Result) {
	for _, v := range result.Violations {
		of := history.Object{Of: v.Of, Name: v.Name}
		tokensOnly := a.TokensOnly || of == forced
		switch {
		case tokensOnly && (v.Kind == history.Overlap || v.Kind == history.ActAfterGrant): // tokens protect against that
		case tokensOnly && v.Kind == history.Unexplained: // an overlap may be why
		case v.Forgetful() && a.forgotten(h, of):
		default:
			a.report.violated("%s: %v%s", kindOf(of), v, proof(h, v))
		}
	}
	if len(result.Undecided) > 0 {
		a.report.slow("it could not be decided whether the history of %v is legal", result.Undecided)
	}
}

// proof lists the events that prove a violation. As in the text of a violation, times count from the first call.
func proof(h *history.History, v history.Violation) string {
	var lines strings.Builder
	first := h.Events()[0].Call
	for _, e := range v.Events {
		fmt.Fprintf(&lines, "\n\t+%v..%v %v", e.Call-first, max(e.Return-first, 0), e)
	}
	return lines.String()
}

// progress checks when each name was acquired again after the last fault, and that a latch was done.
func (a *activeRun) progress(h *history.History) {
	for _, kind := range a.Kinds {
		for _, t := range objects[kind] {
			a.soon(h, kind, fmt.Sprintf("%q was acquired", t.Name), func(e history.Event) bool {
				return e.Kind == history.Acquire && e.Error == "" && e.Of == t.Of && e.Name == t.Name
			})
		}
		if kind == Latch {
			a.soon(h, kind, "a latch was done", func(e history.Event) bool {
				return e.Kind == history.Await && e.Error == ""
			})
		}
	}
}

// recovery is how long after the last fault a lock must be acquired at the latest.
func (a *activeRun) recovery() time.Duration { return a.TTL + a.skew() + 2*time.Second }

// recoveryOf is how long after the last fault an object of a kind must be acquired at the latest. A latch may be in
// the middle of its time when the last obstacle is gone, so the next one must be done. A joint acquisition holds some
// locks while it waits for the others.
func (a *activeRun) recoveryOf(kind Kind) time.Duration {
	if kind == Latch || kind == Join {
		return a.recovery() + 2*a.TTL
	}
	return a.recovery()
}

func (a *activeRun) soon(h *history.History, kind Kind, what string, is func(history.Event) bool) {
	bound := a.recoveryOf(kind)
	first := time.Duration(-1)
	for _, e := range h.Events() {
		since := e.Return - a.report.Over
		if is(e) && since > 0 && (first < 0 || since < first) {
			first = since
		}
	}
	switch {
	case first < 0:
		a.report.slow("%s: not within %v after the last fault ended: %s", kind, bound+patience, what)
	case first > bound:
		a.report.slow("%s: %v and not %v after the last fault ended: %s", kind, first, bound, what)
	}
}

// answered are the kinds of events that need answers of enough nodes to succeed.
var answered = map[history.Kind]bool{history.Acquire: true, history.Set: true, history.CountDown: true, history.Count: true}

// recovered checks that every client can use the nodes again after the last fault: it acquired something, or learned
// the holder.
func (a *activeRun) recovered(h *history.History) {
	for i := range a.clients {
		place := fmt.Sprintf("c%d", i+1)
		if !slices.ContainsFunc(h.Events(), func(e history.Event) bool {
			here := e.Client == place || strings.HasPrefix(e.Client, place+".")
			got := e.Error == "" || e.Kind == history.Acquire && strings.Contains(e.Error, "is held by")
			return here && answered[e.Kind] && e.Return > a.report.Over && got
		}) {
			a.report.slow("%s reached too few nodes after the last fault ended", place)
		}
	}
}

// loss is a period in which a node may have lost its memory.
type loss struct {
	node     int
	from, to time.Duration
}

// during applies a change to a node, and records when that may have made the node lose its memory.
func (a *activeRun) during(s faultinject.Step, change func() error) error {
	from := clock.System().Now()
	err := change()
	to := clock.System().Now()
	switch s.Fault {
	case faultinject.Stop, faultinject.Kill, faultinject.Wipe, faultinject.Lose, faultinject.Flush:
	case faultinject.Isolate: // The owner of a slot loses its latest writes when it learns of another owner.
		from, to = from-s.For, to+s.For
	default:
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.losses = append(a.losses, loss{s.Node, from, to})
	return err
}

// forgotten reports whether a majority may not remember a latch, or the size that a semaphore was set to: too many nodes lost
// their memory while it was in use. The latch may then lack count-downs, or not be set.
func (a *activeRun) forgotten(h *history.History, of history.Object) bool {
	var first, last time.Duration
	for _, e := range h.Events() {
		if e.Of != of.Of || e.Name != of.Name {
			continue
		}
		if first == 0 && (e.Of == history.Latch || e.Kind == history.Resize) {
			first = e.Call
		}
		last = max(last, e.Call, e.Return)
	}
	var nodes []int
	for _, l := range a.losses {
		if first > 0 && l.from <= last && first <= l.to && !slices.Contains(nodes, l.node) {
			nodes = append(nodes, l.node)
		}
	}
	n, lists := len(a.Servers), a.listsWithin(first, last)
	for _, list := range lists {
		n = min(n, len(list))
	}
	spare := n - quorum.Majority().Need(n)
	if len(lists) > 1 { // two majorities may have a single node in common
		spare = 0
	}
	return len(nodes) > spare || first > 0 && len(lists) > 2
}

// listsWithin are the lists of nodes that clients had between two instants.
func (a *activeRun) listsWithin(first, last time.Duration) (lists [][]int) {
	for _, c := range a.clients {
		for i, l := range c.setups {
			over := i+1 < len(c.setups) && c.setups[i+1].since < first
			if l.since <= last && !over && !slices.ContainsFunc(lists, func(other []int) bool { return slices.Equal(other, l.nodes) }) {
				lists = append(lists, l.nodes)
			}
		}
	}
	return lists
}

// leftovers waits until the workers have ended, and then looks for keys of released locks. The clients still run and
// would renew leaked leases. Locks of killed clients have expired by then. So it need not wait for the TTL.
func (a *activeRun) leftovers(ctx context.Context) {
	busy, cancel := context.WithTimeout(ctx, clientsEnd)
	defer cancel()
	for !a.resource.idle() {
		if !workload.Sleep(busy, 10*time.Millisecond) {
			a.report.violated("workers had not ended %v after they were asked to", clientsEnd)
			return
		}
	}
	idle := time.Now()
	for _, s := range a.Servers {
		if !a.awaitSweep(ctx, s, idle) {
			return
		}
	}
}

// awaitSweep waits until a server has only keys that are in use, and reports whether that happened. Keys that remain for
// more than a quarter of the TTL are slow. Keys that outlive the TTL are a violation.
func (a *activeRun) awaitSweep(ctx context.Context, s faultinject.Server, idle time.Time) bool {
	var late []leftKey
	for {
		since := time.Since(idle) // before the server is asked, which may take seconds on a busy machine
		left, err := a.leftOn(ctx, s)
		if err == nil && len(left) == 0 {
			if len(late) > 0 {
				a.report.slow("%v and not %v after all workers had ended, %s had no keys any more; it had %v", since, a.TTL/4, s.Name(), late)
			}
			return true
		}
		unexpected := slices.DeleteFunc(slices.Clone(left), func(k leftKey) bool { return k.expected })
		if since > a.TTL/4 && len(unexpected) > 0 {
			late = unexpected
		}
		if since > max(a.TTL, entryEnd) || !workload.Sleep(ctx, 50*time.Millisecond) {
			a.report.violated("%v after all workers released their locks and ended, %s has the keys %v (%v)", since, s.Name(), left, err)
			return false
		}
	}
}

// lasting matches keys that outlive their users by design: the marker, the fences, the sizes of semaphores; and the indexes of
// their slots, latches and records, which expire by themselves.
var lasting = regexp.MustCompile(`^quorumlock:((node|fences)(:\{\w+\})?$|(latch|latched|awaiting|permits|slots|once|lists):)`)

// endless matches the keys that never expire: the marker, the fences, and the sizes.
var endless = regexp.MustCompile(`^quorumlock:((node|fences)(:\{\w+\})?$|permits:)`)

// entries matches the keys that note when a woken waiter is expected to take permits. Releasing the
// permits deletes them, unless the server came back with older data and lost that release. They then
// expire within entryEnd.
var entries = regexp.MustCompile(`^quorumlock:waiting::quorumlock:permits:`)

// entryEnd is longer than an entry lives in a queue.
const entryEnd = 5 * time.Second

// leftKey is a key that a server still has. It is expected if it ends by itself no later than a client has announced.
type leftKey struct {
	name     string
	ends     string
	expected bool
}

func (k leftKey) String() string { return k.name + " (" + k.ends + ")" }

// leftOn lists the keys of a server that should be gone, or that end soon, and the keys that lack an expiry.
func (a *activeRun) leftOn(ctx context.Context, s faultinject.Server) (left []leftKey, err error) {
	text, err := s.Command(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	for key := range strings.FieldsSeq(text) {
		now := clock.System().Now() // before the server is asked, which may take long
		ttl, err := s.Command(ctx, "PTTL", key)
		life, failed := strconv.Atoi(ttl)
		until := a.resource.keptUntil(key)
		switch {
		case err != nil || failed != nil || endless.MatchString(key) || life == -2:
		case life == -1:
			return []leftKey{{name: key, ends: "without an end"}}, nil
		case lasting.MatchString(key):
		case until > 0 && now+time.Duration(life)*time.Millisecond <= until || entries.MatchString(key):
			left = append(left, leftKey{key, "expected", true})
		default:
			left = append(left, leftKey{name: key, ends: fmt.Sprintf("for %d ms, announced %v", life, until-now)})
		}
	}
	return left, nil
}
