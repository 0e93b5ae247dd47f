package main

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// The states of a lock: see statusHelp.
const (
	stateHeld = "held"
	stateFree = "free"
	// stateInUse is that of a free lock, if something else of that name is held or set.
	stateInUse      = "in_use"
	stateRecovering = "recovering"
	statePartial    = "partial"
	// stateWrongType lasts until the lock is renamed or the key deleted.
	stateWrongType = "wrong_type"
	stateNoQuorum  = "no_quorum"
)

// lockReport is what is known of the lock of a name.
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
	// readers counts the readers on the node.
	readers int
	// unknown is why the node does not tell about a semaphore and a latch of that name.
	unknown string
	// toBegin is set if the node's recovery has not begun.
	toBegin bool
	// wrongType is set if the key on the node is no lock.
	wrongType bool
}

func newLockReport(key string, s *quorumlock.Status) lockReport {
	r := lockReport{Key: key, Owner: s.Holder(), Need: s.Need}
	for _, n := range s.Nodes {
		nr := newNodeReport(n)
		if n.Err == nil || nr.wrongType {
			r.Answered++
		}
		r.Nodes = append(r.Nodes, nr)
	}
	if r.on(node.Readers) >= r.Need {
		r.Owner = node.Readers
	}
	r.State = r.state()
	return r
}

func newNodeReport(n quorumlock.NodeStatus) nodeReport {
	r := nodeReport{Node: n.Node, latency: n.Latency, Latency: inMilliseconds(n.Latency)}
	if n.Err != nil {
		r.Error, r.wrongType = nodeReason(n.Err), errors.Is(n.Err, node.ErrWrongType)
	}
	r.recovering, r.Recovering, r.toBegin = n.Recovering, n.Recovering.Milliseconds(), n.Unmarked
	for _, h := range n.Holders { // one at most, for one name, or all that read it
		if h.Reads {
			h.Owner, h.TTL, r.readers = node.Readers, max(h.TTL, r.ttl), r.readers+1
		}
		r.holdsLock, r.Owner, r.Token, r.ttl, r.TTL = true, h.Owner, h.Token, h.TTL, ttlInMilliseconds(h.TTL)
	}
	return r
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
