package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Row is a lock and its foremost owner. The JSON is documented in the help of top: names are never changed, only added.
type Row struct {
	Key       string `json:"key"`
	Semaphore string `json:"semaphore"`
	Permit    int    `json:"permit"`
	State     string `json:"state"`
	Owner     string `json:"owner"`
	Holder    string `json:"holder"`
	Purpose   string `json:"purpose"`
	Readers   int    `json:"readers"`
	age
	TTL     whole `json:"ttl_ms"`
	Backing int   `json:"backing"`
	Waiters int   `json:"waiters"`
}

type age struct {
	Since string `json:"since"`
	Held  whole  `json:"held_ms"`
}

func (a age) text() string {
	if a.Since == "" {
		return "-"
	}
	return time.Duration(a.Held).Truncate(time.Second).String()
}

type rows struct {
	now   time.Time
	facts *watch.Facts
}

func (r *rows) row(l *Lock) Row {
	row := Row{Key: l.Key, Permit: -1, State: l.State, Owner: cmp.Or(l.Owner, l.foremost()), Waiters: r.waiters(l)}
	if semaphore, permit, ok := wire.Permit(l.Key); ok {
		row.Semaphore, row.Permit = semaphore, permit
	}
	switch row.Owner {
	case "":
		return row
	case node.Readers:
		row.Readers = len(l.Owners())
	default:
		who := quorumlock.ParseOwner(row.Owner)
		row.Holder, row.Purpose, row.age = who.Holder, who.Purpose, r.age(l, row.Owner)
	}
	row.Backing, row.TTL = l.on(row.Owner), whole(l.keeps(row.Owner))
	return row
}

// age returns how long an owner has held the lock, by the time in its token, which is of the owner's clock. Of an owner
// without a token, such as a client of Redisson, it is unknown.
func (r *rows) age(l *Lock, owner string) (a age) {
	var token uint64
	for _, n := range l.Nodes {
		if n.holds() && n.Owner == owner && n.Token > 0 && (token == 0 || n.Token < token) {
			token = n.Token
		}
	}
	if token > 0 {
		begun := time.UnixMicro(int64(min(token, uint64(r.now.UnixMicro()))))
		a = age{Since: begun.UTC().Format(time.RFC3339), Held: whole(r.now.Sub(begun))}
	}
	return a
}

// waiters counts the waiters for a lock: as many as enough nodes know of, or all if fewer answer. Some waiters are
// known to a few nodes only, or stay there a little longer.
func (r *rows) waiters(l *Lock) int {
	var counts []int
	for i := range r.facts.Nodes {
		if n := &r.facts.Nodes[i]; n.Err == nil && n.Uncounted == nil {
			counts = append(counts, n.Locks[l.Key].Waiters)
		}
	}
	if len(counts) == 0 {
		return 0
	}
	slices.Sort(counts)
	return counts[max(0, len(counts)-l.Need)]
}

// keeps is how long enough nodes for a decision keep the lock for an owner, without a renewal.
func (l *Lock) keeps(owner string) time.Duration {
	var left []time.Duration
	for _, a := range l.Nodes {
		if a.holds() && a.Owner == owner {
			left = append(left, a.TTL)
		}
	}
	return enough(left, l.Need)
}

// enough is how long enough of some nodes keep a lock, by their TTLs. If they are too few, it is the longest of these.
func enough(left []time.Duration, need int) time.Duration {
	if slices.Contains(left, node.NoExpiry) {
		return node.NoExpiry
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	if len(left) < need {
		return left[0]
	}
	return left[need-1]
}

// isLock reports whether a hash of one field is a lock.
func (l *Lock) isLock() bool {
	return slices.ContainsFunc(l.Nodes, func(a Answer) bool {
		return slices.ContainsFunc(a.holders, func(h node.Holder) bool { return wire.Holder(h).IsLock() })
	})
}

// shown returns the name that the lock's users know.
func (r *Row) shown() string {
	if r.Permit >= 0 {
		return r.Semaphore
	}
	return r.Key
}

// who describes the holder: where it runs, or else its id.
func (r *Row) who() string {
	who := text.Escaped(r.Holder)
	switch {
	case r.Readers > 0:
		who = text.Plural(r.Readers, "reader")
	case r.Owner == node.Readers:
		who = "readers"
	case who == "":
		who = text.Escaped(r.Owner)
	}
	if r.State != Held {
		who += " (" + strings.ReplaceAll(r.State, "_", " ") + ")"
	}
	return who
}
