package main

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// The states of a lock: see statusHelp.
const (
	stateHeld = "held"
	stateFree = "free"
	// stateInUse means that the lock is free, but the semaphore or the latch of that name is in use.
	stateInUse      = "in_use"
	stateRecovering = "recovering"
	statePartial    = "partial"
	// stateWrongType lasts until the lock is renamed or the key deleted.
	stateWrongType = "wrong_type"
	stateNoQuorum  = "no_quorum"
)

// lockReport has the answers of all nodes about one lock, and their sum.
type lockReport struct {
	Key      string       `json:"key"`
	State    string       `json:"state"`
	Owner    string       `json:"owner"`
	Need     int          `json:"need"`
	Answered int          `json:"answered"`
	Nodes    []nodeReport `json:"nodes"`
}

type nodeReport struct {
	Node       string  `json:"node"`
	Owner      string  `json:"owner"`
	Token      uint64  `json:"token"`
	TTL        int64   `json:"ttl_ms"`
	Recovering int64   `json:"recovering_ms"`
	Latency    float64 `json:"latency_ms"`
	Error      string  `json:"error"`
	ttl        time.Duration
	recovering time.Duration
	latency    time.Duration
	holdsLock  bool
	// holders are the node's own words: the holder, or the readers, which readers counts.
	holders []node.Holder
	readers int
	// unknown is why the node does not tell about a semaphore and a latch of that name.
	unknown string
	// toBegin is set if the node's recovery has not begun.
	toBegin bool
	// wrongType is set if the key on the node is no lock.
	wrongType bool
}

// newLockReport sums up what all nodes say about the lock of a name.
func newLockReport(key string, facts *watch.Facts) *lockReport {
	r := &lockReport{Key: key, Need: len(facts.Nodes)/2 + 1}
	for i := range facts.Nodes {
		n := newNodeReport(&facts.Nodes[i], key)
		if n.Error == "" || n.wrongType {
			r.Answered++
		}
		r.Nodes = append(r.Nodes, n)
	}
	if owner := r.foremost(); r.on(owner) >= r.Need {
		r.Owner = owner
	}
	r.State = r.state()
	if count, _, _ := facts.Latch(key); r.State == stateFree && (count > 0 || len(facts.Permits(key)) > 0) {
		r.State = stateInUse
	}
	return r
}

func newNodeReport(n *watch.Node, key string) nodeReport {
	lock := n.Locks[key]
	r := nodeReport{
		Node: n.Name, latency: n.Latency, Latency: inMilliseconds(n.Latency), holders: lock.Holders,
		recovering: n.Recovering, Recovering: n.Recovering.Milliseconds(), toBegin: n.Unmarked,
	}
	if err := cmp.Or(n.Err, lock.Err); err != nil {
		r.Error, r.wrongType = nodeReason(err), errors.Is(err, node.ErrWrongType)
	}
	if err := n.Kinds[key].Err; err != nil {
		r.unknown = escaped(err.Error())
	}
	for _, h := range lock.Holders { // one at most, for one name, or all that read it
		if h.Reads {
			h.Owner, h.TTL, r.readers = node.Readers, max(h.TTL, r.ttl), r.readers+1
		}
		r.holdsLock, r.Owner, r.Token, r.ttl, r.TTL = true, h.Owner, h.Token, h.TTL, ttlInMilliseconds(h.TTL)
	}
	return r
}

// owners returns all owners that any node reported, sorted.
func (r *lockReport) owners() (owners []string) {
	for _, n := range r.Nodes {
		for _, h := range n.holders {
			owners = append(owners, h.Owner)
		}
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// foremost returns the owner with the most nodes; "" if there is none.
func (r *lockReport) foremost() (owner string) {
	for _, n := range r.Nodes {
		if n.holdsLock && r.on(n.Owner) > r.on(owner) {
			owner = n.Owner
		}
	}
	return owner
}

// ttlInMilliseconds returns -1 for a key that never expires.
func ttlInMilliseconds(ttl time.Duration) int64 {
	if ttl == node.NoExpiry {
		return -1
	}
	return ttl.Milliseconds()
}

// free reports whether the node answered that the lock is not held there. A recovering node may have forgotten a
// holder.
func (r nodeReport) free() bool { return r.Error == "" && !r.holdsLock }

func (r nodeReport) recovers() bool { return r.recovering > 0 }

// state summarises the answers of the nodes.
func (r *lockReport) state() string {
	free := r.count(nodeReport.free)
	sure := r.count(func(n nodeReport) bool { return n.free() && !n.recovers() })
	switch {
	case r.wrongType() > len(r.Nodes)-r.Need:
		return stateWrongType
	case r.Answered < r.Need:
		return stateNoQuorum
	case r.Owner != "":
		return stateHeld
	case sure >= r.Need:
		return stateFree
	case free >= r.Need:
		return stateRecovering
	default:
		return statePartial
	}
}

// count counts the nodes for which is returns true.
func (r *lockReport) count(is func(nodeReport) bool) (count int) {
	for _, n := range r.Nodes {
		if is(n) {
			count++
		}
	}
	return count
}

// taken counts the nodes that have a holder for the lock.
func (r *lockReport) taken() int {
	return r.count(func(n nodeReport) bool { return n.holdsLock })
}

// on counts the nodes on which the owner holds the lock.
func (r *lockReport) on(owner string) int {
	return r.count(func(n nodeReport) bool { return n.holdsLock && n.Owner == owner })
}

// wrongType counts the nodes where the key is no lock.
func (r *lockReport) wrongType() int {
	return r.count(func(n nodeReport) bool { return n.wrongType })
}

// forever counts the nodes whose key never expires.
func (r *lockReport) forever() int {
	return r.count(func(n nodeReport) bool { return n.holdsLock && n.ttl == node.NoExpiry })
}

// opensIn returns the time until enough of these nodes have recovered.
func (r *lockReport) opensIn(these func(nodeReport) bool) time.Duration {
	var left []time.Duration
	for _, n := range r.Nodes {
		if n.Error == "" && these(n) {
			left = append(left, n.recovering)
		}
	}
	if len(left) < r.Need {
		return 0 // it is not a matter of time
	}
	slices.Sort(left)
	return left[r.Need-1]
}
