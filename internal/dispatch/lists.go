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
	// knowing counts the nodes that may be asked for acquisitions, see [listing].
	knowing atomic.Int32
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

// errNotTold is why nothing is acquired yet from a node that has come back.
var errNotTold = errors.New("it has come back, and must note the list of nodes first")

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
	// told is set once the node has answered the round under way, or the last one, until it fails.
	told bool
	// knows is set once rounds have ended in which it was told, until it fails or until has passed: it has noted the list, or it
	// is one of too few nodes to grant anything. Nothing is acquired from it before: a program with another list may do just that.
	knows bool
	until time.Duration
	// rejects is why it cannot note the list.
	rejects *node.Error
	// askAt is when it may be asked again.
	askAt time.Duration
}

// heard records whether the node has told all that it knows of the list, or why it cannot. Otherwise it is asked again after a
// pause, because a node without memory or replicas rejects most other writes too. One that always rejects the list is told.
func (n *listing) heard(all bool, err error, now time.Duration) {
	var refused *node.Error
	n.rejects, n.askAt = nil, now+probePauseMax
	if errors.As(err, &refused) && isAnswer(refused) {
		n.rejects = refused
		all = refused.Permanent() && !errors.Is(refused, node.ErrSameServer)
	}
	n.told = all
}

// failed records that the node failed. Its list may run out meanwhile, so it must note the list again.
func (n *listing) failed(l *lists) {
	n.askAt, n.told = 0, false
	n.know(l, false)
}

// settle sets knows at the end of rounds. counts is set if the answers of these rounds count. A node that is only late still has
// the list that it noted before, until that runs out.
func (n *listing) settle(l *lists, counts bool, now time.Duration) {
	if n.told {
		n.until = time.Duration(l.until.Load())
	}
	n.know(l, counts && (n.told || n.knows && now < n.until))
}

// know sets knows, and counts the node among those that know the list.
func (n *listing) know(l *lists, knows bool) {
	switch {
	case knows && !n.knows:
		l.knowing.Add(1)
	case n.knows && !knows:
		l.knowing.Add(-1)
	}
	n.knows = knows
}

// mustTell reports whether the node, which works at now, must still tell what it knows of the list.
func (n *listing) mustTell(now time.Duration) bool { return (!n.told || !n.knows) && now >= n.askAt }

// forbids says why the list forbids to send a call to the node, or returns nil.
func (n *listing) forbids(c *Call, refusal *node.Error) (reason, err error) {
	switch {
	case c.Until > 0 || !takes(c.Op) && c.Op.Kind != wire.Renew:
		return nil, nil
	case refusal != nil:
		return refusal.Reason, refusal.Err
	case n.rejects != nil && takes(c.Op) && (n.told || c.Op.Kind == wire.Acquire):
		return n.rejects.Reason, n.rejects.Err
	case c.Op.Kind == wire.Acquire && !n.knows:
		return node.ErrDown, errNotTold
	default:
		return nil, nil
	}
}
