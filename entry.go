package quorumlock

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// entry is what stands in the queues of the nodes for a waiter, and when they can be
// expected to be free. The nodes forget it when keep has passed since its last attempt.
type entry struct {
	waiter *waiter
	client *Client
	names  []string
	// key tells it from others of the client; id is that and how long nodes are to wait for it,
	// set with the first attempt.
	key, id string
	ticket  int64
	// turns is set if it leaves free nodes to those who came before.
	turns bool

	mu      sync.Mutex
	outlook quorum.Outlook
	// listening are the nodes whose messages arrive, as of the last attempt; entered those
	// in whose queues it may be; standing those that have said so since, and first those
	// where nobody stands before it; and pending those that have not answered.
	listening, entered, standing, first, pending uint64
	// asked is set once an attempt has carried it, polling if the last one did not find
	// enough nodes that could tell anything, and struck when its waiter has gone.
	asked, polling, struck bool
	// denied is set once it had to wait; guarded by the mutex of the router.
	denied bool
	// poll is when to ask if nodes cannot be relied on to tell, and recheck how long after
	// an attempt in any case.
	poll, recheck time.Duration
	// tries counts the attempts since a node has told of a release, and notBefore is when
	// the next one may be made as long as none does.
	tries     int
	notBefore time.Duration
	// hints are, by node, the slots of a semaphore that it would have the waiter take, since the
	// last attempt; nil if none has said any.
	hints []quorum.Slots
	// won is what its waiter has got, if that is permits of a semaphore.
	won *hold
}

func newEntry(w *waiter) *entry {
	c := w.lock.client
	e := &entry{
		waiter:  w,
		client:  c,
		names:   w.lock.names,
		key:     w.lock.slots.WaiterID(c.id + ":" + c.nextSequence()),
		ticket:  w.ticket,
		turns:   w.lock.takesTurns(),
		outlook: quorum.NewOutlook(c.nodes.Len(), w.lock.need),
	}
	if w.lock.waiting != WaitFair {
		e.ticket = c.lines.turnSince(w)
	}
	return e
}

// begin notes that an attempt is made.
func (e *entry) begin(now time.Duration) {
	listening, _ := e.client.router.subscriptions.Listening()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked {
		id := node.WaiterID
		if e.waiter.lock.reads {
			id = node.ReaderID
		}
		e.id = id(e.key, 3*e.client.nodes.MedianLatency())
	}
	e.listening, e.standing, e.first, e.asked = listening, 0, 0, true
	e.recheck = recheck - time.Duration(e.client.cfg.Jitter()*float64(recheck/4))
	e.notBefore = now + e.restraint()
	e.outlook.Ask(now, e.client.moment())
}

// sign has an acquisition on one node leave an entry if it is denied.
func (e *entry) sign(op *node.Op, i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listening&(1<<i) == 0 {
		// It cannot stand in the queue there, so it takes what it gets. To leave the node to
		// others, who leave theirs to it, would be to wait for each other.
		return
	}
	op.Fair = e.turns
	e.entered |= 1 << i
	e.pending |= 1 << i
	op.Waiter = e.waiting()
}

// waiting is what nodes are told of its waiter as long as that waits.
func (e *entry) waiting() node.Waiter {
	return node.Waiter{ID: e.id, Ticket: e.ticket, Keep: e.client.keepEntry()}
}

// afterUndo is what a node is told of it as it undoes an attempt that came to nothing.
func (e *entry) afterUndo(i int) node.Waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.struck:
		return e.done()
	case e.entered&(1<<i) == 0:
		return node.Waiter{} // it could not be told anything there
	default:
		return e.waiting()
	}
}

// done is what nodes are told of its waiter when that waits no longer: they forget it.
func (e *entry) done() node.Waiter { return node.Waiter{ID: e.id} }

// voted learns from the answer of a node to the acquisition.
func (e *entry) voted(i int, now time.Duration, r *node.Reply) {
	e.mu.Lock()
	defer e.mu.Unlock()
	bit := uint64(1) << i
	e.pending &^= bit
	if r.Outcome == node.Granted {
		e.standing &^= bit // an earlier attempt may have been told there, late, of who had it then
	}
	if r.Outcome == node.Denied {
		e.standing |= e.entered & bit
		if r.Rank == 0 {
			e.first |= bit
		}
		until := after(now, lifetime(r.Holder))
		switch {
		case r.Holder.Owner == "":
			e.outlook.Left(i, until, r.Rank)
		case e.waiter.lock.slots.WrongSlots(r.Pool):
			e.outlook.Idle(i, now)
		default:
			e.outlook.Denied(i, until, r.Rank)
		}
		e.waiter.nudge() // it may be worthwhile sooner than it seemed
	}
	if e.struck && r.Outcome != node.Granted { // else it goes with what was granted
		e.strikeAt(i)
	}
}

// returned notes that a node is free, as somebody else gave back what was no use alone.
func (e *entry) returned(i int, now time.Duration) {
	e.gaveBack(i, now)
	e.waiter.nudge()
}

// forget has nothing that still comes of its attempts put it back into a queue: it goes with
// the release of what was granted.
func (e *entry) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.struck = true
}

// resubscribed notes that messages of a node arrive, of a new subscription: who has an entry
// there may have missed some.
func (e *entry) resubscribed(i int, now time.Duration) {
	e.mu.Lock()
	missed := e.entered&(1<<i) != 0
	e.mu.Unlock()
	if missed {
		e.woken(i, now)
	}
}

// gaveBack notes that a node granted, and the grant is being undone.
func (e *entry) gaveBack(i int, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outlook.Idle(i, now)
}

// failed notes what an attempt has come to: until when to wait at most if there are too few
// nodes that can tell.
func (e *entry) failed(poll time.Duration, held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.poll, e.polling = poll, !held
}

func (e *entry) woken(i int, now time.Duration) {
	e.mu.Lock()
	e.outlook.Woken(i, now)
	e.tries, e.notBefore = 0, 0
	e.mu.Unlock()
	e.waiter.nudge()
}

func (e *entry) standby(i int, now time.Duration) {
	e.mu.Lock()
	e.outlook.Standby(i, now)
	e.mu.Unlock()
	e.waiter.nudge()
}

// announced notes that a lock was released on a node, by somebody who tells everybody. Who
// is not the first there holds back: if the queue is told too, then another is woken now.
func (e *entry) announced(i int, name string, now time.Duration) {
	if _, waits := slices.BinarySearch(e.names, name); !waits {
		return
	}
	e.mu.Lock()
	if e.first&(1<<i) != 0 {
		e.outlook.Woken(i, now)
	} else {
		e.outlook.Standby(i, now)
	}
	e.mu.Unlock()
	e.waiter.nudge()
}

// deaf notes that messages of a node do not arrive any more.
func (e *entry) deaf(i int) {
	e.mu.Lock()
	e.standing &^= 1 << i
	e.mu.Unlock()
	e.waiter.nudge()
}

// next is when the next attempt is worthwhile.
func (e *entry) next() time.Duration {
	_, settled := e.client.router.subscriptions.Listening()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.asked && settled:
		return 0
	case !e.asked:
		return e.poll
	case e.polling || !e.covered():
		return min(e.poll, max(e.notBefore, e.outlook.Next(e.recheck)))
	default:
		return max(e.notBefore, e.outlook.Next(e.recheck))
	}
}

// The bounds of the pause between two attempts for which there seems to be reason.
const (
	minRestraint = time.Millisecond
	maxRestraint = 50 * time.Millisecond
)

// restraint is how long to hold back after this attempt while no node tells of a release:
// those who give back what they could not use tell each other that it is free, and must not
// go on like that. The first retry is free, as it often succeeds. It is not so long that the nodes
// forget the entry meanwhile. The mutex is held.
func (e *entry) restraint() time.Duration {
	e.tries++
	if e.tries < 2 {
		return 0
	}
	c := e.client
	return quorum.Backoff(e.tries-2, minRestraint, max(maxRestraint, min(c.spread(), c.keepEntry()/2)), c.cfg.Jitter())
}

// covered reports whether whoever holds the lock has it on a node that will tell of its
// release. The mutex is held.
func (e *entry) covered() bool {
	lock := e.waiter.lock
	return bits.OnesCount64(e.standing) > e.client.nodes.Len()-lock.need
}

// strike takes the entry out of the queues. On a node that has not answered yet that is
// done when it has.
func (e *entry) strike() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.struck = true
	for i := range e.client.nodes.Len() {
		if e.pending&(1<<i) == 0 {
			e.strikeAt(i)
		}
	}
}

// strikeOne does so on one node, by itself.
func (e *entry) strikeOne(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.strikeAt(i)
}

// strikeAt does so on one node. The mutex is held.
func (e *entry) strikeAt(i int) {
	if e.entered&(1<<i) != 0 {
		e.entered &^= 1 << i
		e.client.nodes.Leave(i, e.names, e.id, e.waiter.lock.slots.OnNodes(), e.client.keepEntry())
	}
}
