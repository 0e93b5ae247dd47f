package quorumlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

const (
	// maxBatch bounds what one exchange carries, and so how long it takes.
	maxBatch = 256
	// maxQueue bounds what waits for one node. Beyond it, the node counts as not
	// asked: others decide. Undos are always taken; there are no more of them than
	// of what was sent.
	maxQueue = 1 << 14
)

// call is one operation on its way to one node.
type call struct {
	// op may be shared with calls to other nodes: it is not changed, but replaced.
	op   *node.Op
	sink sink
	// sent is the local time just before the operation was sent last.
	sent time.Duration
	// until, for an undo, is how long it is tried again; 0 for all else, which is
	// sent once.
	until time.Duration
	// index is that of the node, of at most quorum.MaxNodes; see lane and aim.
	index uint8
	// urgent calls are for people who ask: a node that is down is probed for them at
	// once, whatever pause it is in.
	urgent bool
	// first is set for an undo that goes before what others have queued: what it undoes was
	// sent before that.
	first bool
	// retried is set for the one undo that tries a node which rejected it before.
	retried bool
	// told is set once the sink has its one answer. An undo may go on after it.
	told bool
}

// lane is the index of the node.
func (c *call) lane() int { return int(c.index) }

func (c *call) aim(lane int) { c.index = uint8(lane) } //nolint:gosec // see index

// sink is told the answer to a call, once, without any lock held.
type sink interface {
	answer(c *call, r *node.Reply)
}

// lane is the way to one node: a queue, and at most one sender.
//
// What is submitted to an idle lane is sent at once, in a goroutine of the client's
// errgroup; what comes while that is under way waits and leaves together, in one
// pipelined exchange (group commit). So a lone caller sees a plain parallel fan-out, a
// thousand callers share a few goroutines and round trips, and an idle client has no
// goroutine at all. One exchange at a time also keeps the order: an operation never
// overtakes one that was submitted before.
type lane struct {
	index  int
	node   node.Node
	client *Client

	mu    sync.Mutex
	queue []*call
	// renewals counts those in the queue, by how many nodes they need.
	renewals []int
	// inFlight is what the sender has sent and has no answer to.
	inFlight []*call
	// kept are undos that failed and wait to be tried again.
	kept []*call
	// busy is set while there is a sender.
	busy bool
	// began and deadline are when the exchange under way was sent, and when it is
	// overdue; deadline is 0 while there is none.
	began, deadline time.Duration
	// overdue is set once it was: its callers have been told, and nobody waits.
	overdue bool
	// closed is set when no failed undo is to be tried again; gone when the node was
	// closed by somebody.
	closed, gone bool
	// dropped counts undos that were given up.
	dropped int
	health  health
	// connector is the node, if it can say whether it is connected; connecting is set while the
	// sender has it connect, before any operation is sent.
	connector  node.Connector
	connecting bool
	// greeters are told, once, whether the node is connected.
	greeters []chan<- greeting
	// identity is that of the server that answered last, twin the node that is the same
	// server and has the vote, recoverUntil the end of the recovery that was told last.
	identity, twin string
	recoverUntil   time.Duration
	// complaint is why the node refuses this client, as it was reported last.
	complaint error
	// watchdog runs at barkAt, while watched is set; retry runs when kept undos may be
	// tried again.
	watchdog, retry clock.Timer
	watched         bool
	barkAt, retryAt time.Duration

	// sender is drain, bound once.
	sender func() error

	// Reused from batch to batch, by the sender only.
	batch   []*call
	ops     []node.Op
	replies []node.Reply
}

func newLane(c *Client, index int, nd node.Node) *lane {
	l := &lane{
		index:    index,
		node:     nd,
		client:   c,
		renewals: make([]int, len(c.schedule.waiting)),
		health:   newHealth(c.cfg.NodeTimeoutMin, c.cfg.NodeTimeoutMax),
	}
	l.connector, _ = nd.(node.Connector)
	l.sender = l.drain
	return l
}

// submit queues a call. An error means that the node is not asked now, and the sink
// will not be told: a call is then dropped, except that an undo is kept and tried
// later.
func (l *lane) submit(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.aim(l.index)
	if reason, err := l.refusal(c); reason != nil {
		refused := &node.Error{Node: l.node.Name(), Op: c.op.Kind, Reason: reason, Err: err}
		if c.until > 0 {
			c.told = true
			l.putOff(c)
		}
		return refused
	}
	if c.first {
		l.queue = slices.Insert(l.queue, l.behind(c.op.Owner), c)
	} else {
		l.queue = append(l.queue, c)
	}
	l.countRenewal(c, 1)
	l.start()
	return nil
}

// behind is the place in the queue behind all that is sent for an owner, or the first. The
// mutex is held.
func (l *lane) behind(owner string) int {
	for i, c := range slices.Backward(l.queue) {
		if c.op.Owner == owner {
			return i + 1
		}
	}
	return 0
}

// refusal says why a call is not to be sent now, and what is behind it. A node that is
// down is asked again when its pause is over, by one call: the others are refused until
// that is answered.
func (l *lane) refusal(c *call) (reason, err error) {
	switch {
	case l.closed && (c.until == 0 || !l.busy): // the sender still takes the undo of what it sent
		return node.ErrClosed, nil
	case l.overdue:
		return node.ErrDown, node.ErrTimeout
	case l.resting(c.urgent):
		return node.ErrDown, l.health.err
	case c.until == 0 && len(l.queue) >= maxQueue:
		return node.ErrBusy, nil
	default:
		return nil, nil
	}
}

// resting reports whether the node is down and not to be asked now. The mutex is held.
func (l *lane) resting(urgent bool) bool {
	return l.health.down && !urgent && (l.busy || l.client.clock.Now() < l.health.probeAt)
}

// start makes sure that there is a sender. The mutex is held.
func (l *lane) start() {
	if !l.busy {
		l.busy = true
		l.client.senders.Go(l.sender)
	}
}

// drain is the sender: it sends batch after batch until nothing is left, or the node
// fails.
func (l *lane) drain() error {
	for l.ready() && l.take() {
		l.node.Do(context.Background(), l.ops, l.replies)
		if !l.settle() {
			break
		}
	}
	return nil
}

// probe asks a node that is down for a sign of life, before any operation is risked.
func (l *lane) probe() (alive bool) {
	l.mu.Lock()
	l.watch(l.client.clock.Now(), l.health.timeout)
	l.mu.Unlock()

	err := l.node.Probe(context.Background())

	l.mu.Lock()
	overdue := l.unwatch()
	return l.concluded(l.client.clock.Now(), overdue, err)
}

// take makes a batch of what is queued, or ends the sender.
func (l *lane) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), maxBatch)
	if n == 0 {
		l.greet(nil) // they came after the node was found ready
		l.busy = false
		return false
	}
	l.batch = append(l.batch[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	for _, c := range l.batch {
		l.countRenewal(c, -1)
	}
	l.client.schedule.look()

	now := l.client.clock.Now()
	l.ops, l.replies = l.ops[:0], l.replies[:0]
	for _, c := range l.batch {
		c.sent = now
		l.ops = append(l.ops, *c.op)
		l.replies = append(l.replies, node.Reply{})
	}
	l.inFlight = l.batch
	l.watch(now, l.health.timeout)
	return true
}

// settle hands the answers of the batch out, and reports whether to go on.
func (l *lane) settle() bool {
	l.mu.Lock()
	overdue := l.unwatch()
	l.inFlight = nil
	ended := l.client.clock.Now()
	l.lookAt(ended)
	for i, c := range l.batch {
		switch {
		case c.until == 0:
		case undoFailed(&l.replies[i]):
			l.gone = l.gone || errors.Is(l.replies[i].Err, node.ErrClosed)
			l.keep(c, ended)
		case c.retried:
			l.requeue()
		}
		if c.told {
			l.batch[i] = nil
		} else {
			c.told = true
		}
	}
	l.mu.Unlock()

	for i, c := range l.batch {
		if c != nil {
			c.sink.answer(c, &l.replies[i])
		}
	}
	clear(l.batch)
	clear(l.ops)

	l.mu.Lock()
	return l.concluded(ended, overdue, l.spared(failureOf(l.replies)))
}

// concluded records how an exchange or a probe ended, and tells those who wait for a
// node that failed. It is called with the mutex held, and returns without it.
func (l *lane) concluded(now time.Duration, overdue bool, failure error) (alive bool) {
	connecting := l.connecting
	l.connecting = false
	l.greet(failure)
	if failure == nil {
		recovered := false
		if !connecting { // which takes several round trips
			recovered = l.health.answered(now - l.began)
		}
		if recovered || overdue {
			l.requeue()
		}
		l.mu.Unlock()
		if recovered {
			l.client.nodeUp(l.node.Name())
		}
		return true
	}
	news := l.health.failed(now, failure, l.client.cfg.Jitter())
	refused := l.refuseQueue(now)
	if len(l.kept) > 0 {
		l.armRetry()
	}
	l.busy = false
	l.mu.Unlock()

	reason, why := node.ErrDown, failure
	if connecting {
		reason, why = reasonOf(failure)
	}
	l.tell(refused, reason, why, true)
	if news {
		l.client.nodeDown(l.node.Name(), failure)
	}
	return false
}

// failureOf says whether an exchange shows that the node is in no state to be asked,
// and why. One operation that it answered, if only with an error, shows that it is.
func failureOf(replies []node.Reply) error {
	for _, r := range replies {
		if r.Err == nil || !r.Unsent && isAnswer(r.Err) {
			return nil
		}
	}
	return replies[0].Err
}

// isAnswer reports whether an error is something that a working server said.
func isAnswer(err error) bool {
	var nodeErr *node.Error
	if !errors.As(err, &nodeErr) {
		return false
	}
	switch nodeErr.Reason {
	case node.ErrWrongType, node.ErrRejected, node.ErrAuth, node.ErrRecovering, node.ErrSettings, node.ErrClock, node.ErrSameServer: //nolint:errorlint // a reason is never wrapped
		return true
	default:
		return false
	}
}
