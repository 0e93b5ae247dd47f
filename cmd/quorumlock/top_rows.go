package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// topReport is the output of top --json, which topHelp documents. Names are never changed, only added.
type topReport struct {
	Need     int       `json:"need"`
	Answered int       `json:"answered"`
	Complete bool      `json:"complete"`
	Nodes    []topNode `json:"nodes"`
	Locks    []topLock `json:"locks"`
}

type topNode struct {
	Node       string  `json:"node"`
	Error      string  `json:"error"`
	Latency    float64 `json:"latency_ms"`
	Recovering int64   `json:"recovering_ms"`
	Locks      int     `json:"locks"`
	// Note says what could not be learnt from a node that answers.
	Note string `json:"note"`
}

type topLock struct {
	Key       string `json:"key"`
	Semaphore string `json:"semaphore"`
	Permit    int    `json:"permit"`
	State     string `json:"state"`
	Owner     string `json:"owner"`
	Holder    string `json:"holder"`
	Purpose   string `json:"purpose"`
	Readers   int    `json:"readers"`
	heldFor
	TTL     int64 `json:"ttl_ms"`
	Backing int   `json:"backing"`
	Waiters int   `json:"waiters"`
	ttl     time.Duration
}

// heldFor is how long an owner has held a lock, for output.
type heldFor struct {
	Since   string `json:"since"`
	Held    int64  `json:"held_ms"`
	AtLeast bool   `json:"held_at_least"`
	held    time.Duration
}

// heldSince is the time since which an owner has held a lock; zero if unknown. For a lock that has been held for very
// long, it is only an upper bound.
type heldSince struct {
	since   time.Time
	atLeast bool
}

type topper struct {
	// given are the locks that are shown even if they are not held.
	given []string
	order func(a, b topLock) int
	// known has the times of the previous round, by [holdKey]. A hold without a token counts from when it was first
	// seen.
	known map[string]heldSince
}

// holdKey identifies the hold of a lock by an owner.
func holdKey(name, owner string) string { return name + "\n" + owner }

// report interprets the facts at a time.
func (t *topper) report(now time.Time, facts *watch.Facts) *topReport {
	r := &topReport{Need: len(facts.Nodes)/2 + 1, Complete: facts.Whole, Locks: []topLock{}}
	for i := range facts.Nodes {
		n := newTopNode(&facts.Nodes[i])
		if n.Error == "" {
			r.Answered++
		}
		r.Nodes = append(r.Nodes, n)
	}
	seen := make(map[string]heldSince)
	for _, name := range facts.Names {
		if report := newLockReport(name, facts); slices.Contains(t.given, name) || report.lockLike() {
			r.Locks = append(r.Locks, t.lock(now, report, facts, seen))
		}
	}
	if r.Answered < r.Need { // an unreachable lock may still have its holder
		maps.Copy(seen, t.known)
	}
	t.known = seen
	slices.SortStableFunc(r.Locks, t.order)
	return r
}

func newTopNode(n *watch.Node) topNode {
	t := topNode{Node: n.Name, Recovering: n.Recovering.Milliseconds(), Latency: inMilliseconds(n.Latency)}
	for _, l := range n.Locks {
		if len(l.Holders) > 0 {
			t.Locks++
		}
	}
	var notes []string
	switch {
	case n.Err != nil:
		t.Error = nodeReason(n.Err)
		return t
	case n.Unmarked, n.Recovering > 0:
		notes = append(notes, recoveryText(n.Recovering, !n.Unmarked))
	}
	if n.Unlisted != nil {
		notes = append(notes, "not searched for locks: "+escaped(n.Unlisted.Error()))
	}
	if n.Uncounted != nil {
		notes = append(notes, "waiters not counted: "+escaped(n.Uncounted.Error()))
	}
	t.Note = strings.Join(notes, "; ")
	return t
}

// lockLike reports whether a hash of one field is a lock: it expires, and the field looks like an owner id of this
// library or of Redisson.
func (r *lockReport) lockLike() bool {
	for _, n := range r.Nodes {
		for _, h := range n.holders {
			client, number, _ := strings.Cut(quorumlock.ParseOwner(h.Owner).ID, ":")
			if h.TTL != node.NoExpiry && (h.Reads || client != "" && number != "" && strings.Trim(number, "0123456789") == "") {
				return true
			}
		}
	}
	return false
}

func (t *topper) lock(now time.Time, report *lockReport, facts *watch.Facts, seen map[string]heldSince) topLock {
	name := report.Key
	l := topLock{Key: name, Permit: -1, State: report.State, Owner: cmp.Or(report.Owner, report.foremost()), Waiters: waiters(name, facts, report.Need)}
	if semaphore, permit, ok := watch.Permit(name); ok {
		l.Semaphore, l.Permit = semaphore, permit
	}
	if l.Owner == "" {
		return l
	}
	l.Backing, l.ttl = report.on(l.Owner), report.keeps(l.Owner)
	l.TTL = ttlInMilliseconds(l.ttl)
	if l.Owner == node.Readers {
		l.Readers = len(report.owners())
		return l
	}
	who := quorumlock.ParseOwner(l.Owner)
	l.Holder, l.Purpose = who.Holder, who.Purpose
	held := t.heldSince(now, report, l.Owner)
	seen[holdKey(name, l.Owner)] = held
	l.held, l.AtLeast = max(0, now.Sub(held.since)), held.atLeast
	l.Since, l.Held = held.since.UTC().Format(time.RFC3339), l.held.Milliseconds()
	return l
}

// keeps is how long enough nodes for a decision keep the lock for an owner, without a renewal.
func (r *lockReport) keeps(owner string) time.Duration {
	var left []time.Duration
	for _, n := range r.Nodes {
		if n.holdsLock && n.Owner == owner {
			left = append(left, n.ttl)
		}
	}
	return leastOf(left, r.Need)
}

// leastOf is how long enough of some nodes keep a lock, by their TTLs. If they are too few, it is the longest of these.
func leastOf(left []time.Duration, need int) time.Duration {
	if slices.Contains(left, node.NoExpiry) {
		return node.NoExpiry
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	if len(left) < need {
		return left[0]
	}
	return left[need-1]
}

// waiters counts the waiters for a lock: as many as enough nodes know of, or all if fewer answer. Some waiters are
// known to a few nodes only, or stay there a little longer.
func waiters(name string, facts *watch.Facts, need int) int {
	var counts []int
	for i := range facts.Nodes {
		if n := &facts.Nodes[i]; n.Err == nil && n.Uncounted == nil {
			counts = append(counts, n.Locks[name].Waiters)
		}
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	if len(counts) == 0 {
		return 0
	}
	return counts[min(need, len(counts))-1]
}

// heldSince returns the time since which an owner has held the lock: the time in its token, by the owner's clock. An
// owner without a token, such as a client of Redisson, counts from when it was first seen. Earlier results take
// precedence.
func (t *topper) heldSince(now time.Time, r *lockReport, owner string) heldSince {
	if before, ok := t.known[holdKey(r.Key, owner)]; ok {
		return before
	}
	var token uint64
	for _, n := range r.Nodes {
		if n.holdsLock && n.Owner == owner && n.Token > 0 && (token == 0 || n.Token < token) {
			token = n.Token
		}
	}
	if token > 0 && token < uint64(now.UnixMicro()) {
		return heldSince{since: time.UnixMicro(int64(token))}
	}
	return heldSince{since: now, atLeast: token == 0}
}

// topOrders are the orders in which locks can be listed. Ties are ordered by name.
var topOrders = map[string]func(a, b topLock) int{
	"name":    byName,
	"held":    then(func(a, b topLock) int { return cmp.Compare(b.held, a.held) }),
	"ttl":     then(func(a, b topLock) int { return cmp.Compare(a.ttl, b.ttl) }),
	"waiters": then(func(a, b topLock) int { return cmp.Compare(b.Waiters, a.Waiters) }),
}

func byName(a, b topLock) int {
	return cmp.Or(cmp.Compare(a.shown(), b.shown()), cmp.Compare(a.Permit, b.Permit), cmp.Compare(a.Key, b.Key))
}

func then(first func(a, b topLock) int) func(a, b topLock) int {
	return func(a, b topLock) int { return cmp.Or(first(a, b), byName(a, b)) }
}

// shown returns the name that the lock's users know.
func (l *topLock) shown() string {
	if l.Permit >= 0 {
		return l.Semaphore
	}
	return l.Key
}
