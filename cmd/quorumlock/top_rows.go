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

// topReport is what top --json prints, and topHelp documents: names are never changed, only added.
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
	// Note is what could not be learnt, of a node that answers.
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
	Since     string `json:"since"`
	Held      int64  `json:"held_ms"`
	AtLeast   bool   `json:"held_at_least"`
	TTL       int64  `json:"ttl_ms"`
	Backing   int    `json:"backing"`
	Waiters   int    `json:"waiters"`
	ttl, held time.Duration
}

// tenure is since when an owner has had a lock; zero if that cannot be told. Of a lock that was taken
// too long ago it is only known that it was not later.
type tenure struct {
	since   time.Time
	atLeast bool
}

// topper makes reports of facts.
type topper struct {
	limits node.Limits
	// given are the locks that are shown also if nobody has them.
	given []string
	order func(a, b topLock) int
	// known is since when owners had their locks in the look before, by [tenureKey]: nodes forget the
	// token of a lock that is held for long.
	known map[string]tenure
}

// tenureKey is what a tenure is remembered by.
func tenureKey(name, owner string) string { return name + "\n" + owner }

// report says what the facts mean at a time.
func (t *topper) report(now time.Time, facts *watch.Facts) *topReport {
	r := &topReport{Need: len(facts.Nodes)/2 + 1, Complete: facts.Whole, Locks: []topLock{}}
	for i := range facts.Nodes {
		n := newTopNode(&facts.Nodes[i])
		if n.Error == "" {
			r.Answered++
		}
		r.Nodes = append(r.Nodes, n)
	}
	seen := make(map[string]tenure)
	for _, name := range facts.Names {
		status := statusOf(name, facts, r.Need)
		if !slices.Contains(t.given, name) && !lockLike(status) {
			continue
		}
		lock := t.lock(now, status, facts, seen)
		r.Locks = append(r.Locks, lock)
	}
	if r.Answered < r.Need { // who has a lock of which nothing was heard may have it still
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

// statusOf is what all nodes say about one lock.
func statusOf(name string, facts *watch.Facts, need int) *quorumlock.Status {
	s := &quorumlock.Status{Names: []string{name}, Need: need}
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		said := n.Locks[name]
		s.Nodes = append(s.Nodes, quorumlock.NodeStatus{
			Node: n.Name, Holders: said.Holders, Recovering: n.Recovering, Unmarked: n.Unmarked,
			Latency: n.Latency, Err: cmp.Or(n.Err, said.Err),
		})
	}
	return s
}

// lockLike reports whether what was found is a lock, and no other hash of one field: it expires, and
// the field looks like the id of an owner, this library's or Redisson's.
func lockLike(s *quorumlock.Status) bool {
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			client, number, _ := strings.Cut(quorumlock.ParseOwner(h.Owner).ID, ":")
			if h.TTL != node.NoExpiry && (h.Reads || client != "" && number != "" && strings.Trim(number, "0123456789") == "") {
				return true
			}
		}
	}
	return false
}

// lock is what is known of one lock.
func (t *topper) lock(now time.Time, status *quorumlock.Status, facts *watch.Facts, seen map[string]tenure) topLock {
	name := status.Names[0]
	report := newLockReport(name, status)
	l := topLock{Key: name, Permit: -1, State: report.State, Owner: cmp.Or(report.Owner, report.foremost()), Waiters: waiters(name, facts, status.Need)}
	if semaphore, permit, ok := watch.Permit(name); ok {
		l.Semaphore, l.Permit = semaphore, permit
	}
	if l.Owner == "" {
		return l
	}
	l.Backing, l.ttl = report.on(l.Owner), report.keeps(l.Owner)
	l.TTL = l.ttl.Milliseconds()
	if l.ttl == node.NoExpiry {
		l.TTL = -1
	}
	if l.Owner == node.Readers {
		l.Readers = len(status.Owners())
		return l
	}
	who := quorumlock.ParseOwner(l.Owner)
	l.Holder, l.Purpose = who.Holder, who.Purpose
	tenure := t.tenure(now, &report, l.Owner)
	seen[tenureKey(name, l.Owner)] = tenure
	l.held, l.AtLeast = max(0, now.Sub(tenure.since)), tenure.atLeast
	l.Since, l.Held = tenure.since.UTC().Format(time.RFC3339), l.held.Milliseconds()
	return l
}

// foremost is the owner that most nodes have, of those that none has on enough; "" if there is none.
func (r *lockReport) foremost() (owner string) {
	for _, n := range r.Nodes {
		if n.holdsLock && (owner == "" || r.on(n.Owner) > r.on(owner)) {
			owner = n.Owner
		}
	}
	return owner
}

// keeps is how long as many nodes as decide keep the lock for an owner, without renewal; of fewer
// nodes, the one that keeps it longest.
func (r *lockReport) keeps(owner string) time.Duration {
	var left []time.Duration
	for _, n := range r.Nodes {
		if n.holdsLock && n.Owner == owner {
			left = append(left, n.ttl)
		}
	}
	if slices.Contains(left, node.NoExpiry) {
		return node.NoExpiry
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	if len(left) < r.Need {
		return left[0]
	}
	return left[r.Need-1]
}

// waiters counts those who wait for a lock: as many as enough nodes know of, or all where fewer answer.
// Some wait on a few nodes only, or stand there a little longer.
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

// tenure is since when an owner has the lock: the time in its token, by its own clock. What was known
// first is best, as nodes forget.
func (t *topper) tenure(now time.Time, r *lockReport, owner string) tenure {
	if before, ok := t.known[tenureKey(r.Key, owner)]; ok {
		return before
	}
	var token uint64
	for _, n := range r.Nodes {
		if n.holdsLock && n.Owner == owner && n.Token > 0 && (token == 0 || n.Token < token) {
			token = n.Token
		}
	}
	switch {
	case token > 0 && token < uint64(now.UnixMicro()):
		return tenure{since: time.UnixMicro(int64(token))}
	case token > 0 || redissons(owner):
		return tenure{since: now, atLeast: token == 0}
	default: // nodes forget a token when this has passed since it was made
		return tenure{since: now.Add(-t.limits.Recovery()), atLeast: true}
	}
}

// redissons reports whether an owner is Redisson's, which has no token: a UUID and a thread.
func redissons(owner string) bool {
	return strings.Count(quorumlock.ParseOwner(owner).Client, "-") == 4
}

// topOrders are the orders in which locks can be listed. Where two are alike, names decide.
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

// shown is the name that its users know.
func (l *topLock) shown() string {
	if l.Permit >= 0 {
		return l.Semaphore
	}
	return l.Key
}
