package dispatch

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// lists is what a client knows of its list of nodes.
type lists struct {
	// until: each node that answers has noted the list, for operations that begin before. It is 0 if too few have.
	until atomic.Int64
	// refusal is why a node refuses the list, or nil.
	refusal atomic.Pointer[node.Error]
	// own is the list, sorted, with the ids that are known. It belongs to the rounds. It is replaced, never changed.
	own wire.List

	mu sync.Mutex
	// losses counts how often a node may have lost its memory.
	losses int
	// refusedUntil is when the lists run out that refuse it.
	refusedUntil time.Duration
	// running is set while rounds are under way, and ended is closed when they have ended. It is nil before the first ones.
	running bool
	ended   chan struct{}
	// again is set if further rounds must follow if those under way hear too few nodes.
	again bool
	// tell starts rounds.
	tell func()
}

// learn notes the id of a node, by its place in the list, and reports whether it is another one than before.
func (l *lists) learn(place int, id string) (renamed bool) {
	if l.own.IDs[place] == id {
		return false
	}
	l.own.IDs = slices.Clone(l.own.IDs)
	l.own.IDs[place] = id
	return true
}

// takes reports whether an operation asks for a right that needs a list which agrees with others.
func takes(op *wire.Op) bool {
	switch op.Kind {
	case wire.Acquire, wire.Unlatch:
		return true
	case wire.Latch:
		return op.Latch.Count > 0 || len(op.Latch.IDs) > 0
	case wire.Resize:
		return op.Pool.Version > 0
	default:
		return false
	}
}

// forgotten records that a node may have forgotten the list and its own id. It is told at once, before another client
// gives it another id.
func (l *lists) forgotten() {
	l.mu.Lock()
	l.losses++
	listed := l.until.Swap(0) > 0
	l.mu.Unlock()
	if listed {
		l.tell()
	}
}

// returned records that a node answers that has not said yet what it knows of the list. Too few may have said so before an
// attempt, and it may have granted that since. If it was down, rounds under way may have left it out.
func (l *lists) returned(wasDown bool) {
	l.mu.Lock()
	asked := l.ended != nil
	l.again = l.again || l.running && wasDown
	l.mu.Unlock()
	if asked {
		l.tell()
	}
}

// listing is what a node has said of the list. The sender's mutex guards it.
type listing struct {
	// place is that of the node in the list.
	place int
	// told is set once the node has told what it knows of the list, until it fails.
	told bool
	// unable is why it cannot note the list.
	unable *node.Error
	// askAt is when it may be asked again, if it has rejected the list for now.
	askAt time.Duration
}

// heard records whether the node has told what it knows of the list, or why it cannot. One that only rejects that for now,
// as without memory or replicas, is asked again after a pause: it rejects most other writes too.
func (n *listing) heard(knows bool, err error, now time.Duration) {
	var refused *node.Error
	n.unable = nil
	if errors.As(err, &refused) && isAnswer(refused) {
		n.askAt = now + probePauseMax
		if refused.Permanent() && !errors.Is(refused, node.ErrSameServer) {
			n.unable = refused
		}
	}
	n.told = knows || n.unable != nil
}

// mustTell reports whether the node, which works at now, must still tell what it knows of the list.
func (n *listing) mustTell(now time.Duration) bool { return !n.told && now >= n.askAt }

// forbids says why the list forbids to send a call to the node, or returns nil.
func (n *listing) forbids(c *Call, refusal *node.Error) (reason, err error) {
	switch {
	case c.Until > 0 || !takes(c.Op) && c.Op.Kind != wire.Renew:
		return nil, nil
	case refusal != nil:
		return refusal.Reason, refusal.Err
	case n.unable != nil && takes(c.Op):
		return n.unable.Reason, n.unable.Err
	default:
		return nil, nil
	}
}
