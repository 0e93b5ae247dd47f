package dispatch

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
	// maxBatch bounds the operations of one exchange, and so its duration.
	maxBatch = 256
	// maxQueue bounds what waits for one node. Beyond it, the node counts as not asked,
	// and the others decide. Undos are always accepted: there is at most one for each
	// operation that was sent.
	maxQueue = 1 << 14
)

// sender carries calls to one node: a queue, and at most one goroutine.
//
// A call to an idle sender is sent at once, in a goroutine of the errgroup. Calls that come
// while an exchange is under way wait, and leave together in one pipelined exchange (group
// commit). So a lone caller sees a plain parallel fan-out. A thousand callers share a few
// goroutines and round trips. An idle client has no goroutine at all. One exchange at a time
// also keeps the order: an operation never overtakes one that was submitted before it.
type sender struct {
	index int
	node  node.Node
	nodes *Nodes

	mu    sync.Mutex
	queue []*Call
	// renewals counts the renewals in the queue by how many nodes they need.
	renewals []int
	// inFlight has been sent and not been answered.
	inFlight []*Call
	// kept are undos that failed and wait to be repeated.
	kept []*Call
	// busy is set while there is a goroutine.
	busy bool
	// began and deadline are when the exchange under way was sent, and when it is
	// overdue; deadline is 0 while there is none.
	began, deadline time.Duration
	// overdue is set once it is: its receivers have been told, and no caller waits for it.
	overdue bool
	// soonest is the earliest deadline of a call that has no answer, or 0.
	soonest time.Duration
	// closed is set when failed undos are no longer kept, gone when the node itself was closed.
	closed, gone bool
	// dropped counts releases that were given up.
	dropped int
	health  health
	// connector is the node, if it can say whether it is connected. connecting is set while the
	// goroutine connects the node, before it sends any operation. connectWaiters are told once how
	// that ended.
	connector      node.Connector
	connecting     bool
	connectWaiters []chan<- Connection
	// evictor is the node, if it can say whether its server may evict locks. evicts is set once it has said so.
	evictor node.Evictor
	evicts  bool
	// identity is the identity of the server that answered last. twin names the node that is
	// the same server and has the vote. recoverUntil ends the recovery that was reported last.
	identity, twin string
	recoverUntil   time.Duration
	// complaint is why the node refuses this client, as reported last.
	complaint error
	// timer runs onTimeout at timerAt, while timerSet; retry runs retryKept at retryAt.
	timer, retry     clock.Timer
	timerSet         bool
	timerAt, retryAt time.Duration

	// run is drain, bound once to save an allocation per start.
	run func() error

	// Reused from batch to batch, by the goroutine only.
	batch   []*Call
	ops     []node.Op
	replies []node.Reply
}

func newSender(n *Nodes, index, count int, nd node.Node) *sender {
	s := &sender{
		index:    index,
		node:     nd,
		nodes:    n,
		renewals: make([]int, count+1),
		health:   newHealth(n.env.TimeoutMin, n.env.TimeoutMax),
	}
	s.connector, _ = nd.(node.Connector)
	s.evictor, _ = nd.(node.Evictor)
	s.run = s.drain
	return s
}

// submit implements Nodes.Submit.
func (s *sender) submit(c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.setNode(s.index)
	if reason, err := s.refusalLocked(c); reason != nil {
		refused := &node.Error{Node: s.node.Name(), Op: c.Op.Kind, Reason: reason, Err: err}
		if c.Until > 0 {
			c.answered = true
			s.deferUndoLocked(c)
		}
		return refused
	}
	if c.Front {
		s.queue = slices.Insert(s.queue, s.behindLocked(c.Op.Owner), c)
	} else {
		s.queue = append(s.queue, c)
	}
	s.countRenewalLocked(c, 1)
	s.expectLocked(c)
	s.startLocked()
	return nil
}

// behindLocked is the place in the queue behind the last call of an owner, or the first place.
func (s *sender) behindLocked(owner string) int {
	for i, c := range slices.Backward(s.queue) {
		if c.Op.Owner == owner {
			return i + 1
		}
	}
	return 0
}

// refusalLocked says why a call cannot be sent now: a reason of package node, and its cause. A
// node that is down is asked again when its pause is over, by one call. Others are
// refused until that is answered.
func (s *sender) refusalLocked(c *Call) (reason, err error) {
	switch {
	case s.closed && (c.Until == 0 || !s.busy): // a running sender still accepts undos of its operations
		return node.ErrClosed, nil
	case s.overdue:
		return node.ErrDown, node.ErrTimeout
	case s.pausedLocked(c.Urgent):
		return node.ErrDown, s.health.err
	case c.Until == 0 && len(s.queue) >= maxQueue:
		return node.ErrBusy, nil
	default:
		return nil, nil
	}
}

// pausedLocked reports whether the node is down and its next probe is not due yet.
func (s *sender) pausedLocked(urgent bool) bool {
	return s.health.down && !urgent && (s.busy || s.nodes.env.Clock.Now() < s.health.probeAt)
}

// startLocked starts the goroutine, unless it is running.
func (s *sender) startLocked() {
	if !s.busy {
		s.busy = true
		s.nodes.goroutines.Go(s.run)
	}
}

// drain is the goroutine: it sends batch after batch until the queue is empty or the node fails.
func (s *sender) drain() error {
	for s.ready() && s.take() {
		s.node.Do(context.Background(), s.ops, s.replies)
		if !s.settle() {
			break
		}
	}
	return nil
}

// ready makes sure that the node can be asked: that it answers again, if it was down, and that it
// is connected, if the node can tell. Calls that are queued meanwhile wait for that.
func (s *sender) ready() bool {
	s.mu.Lock()
	down, waiters := s.health.down, len(s.connectWaiters)
	s.mu.Unlock()
	switch {
	case down:
		return s.probe()
	case s.connector != nil && !s.connector.Connected(), s.connector == nil && waiters > 0:
		return s.connect()
	default:
		return true
	}
}

// take moves calls from the queue into the batch. If there are none, it ends the goroutine.
func (s *sender) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.queue), maxBatch)
	if n == 0 {
		s.connectedLocked(nil) // for waiters that came after the node was ready
		s.busy = false
		return false
	}
	s.batch = append(s.batch[:0], s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	for _, c := range s.batch {
		s.countRenewalLocked(c, -1)
	}
	s.nodes.env.Events.CapacityFreed()

	now := s.nodes.env.Clock.Now()
	s.ops, s.replies = s.ops[:0], s.replies[:0]
	for _, c := range s.batch {
		c.Sent, c.late = now, false // an undo that is sent again may have been late before
		s.ops = append(s.ops, *c.Op)
		s.replies = append(s.replies, node.Reply{})
	}
	s.inFlight = s.batch
	s.startTimeoutLocked(now, s.health.timeout)
	return true
}

// settle passes the answers of the batch on, and reports whether the node is up.
func (s *sender) settle() bool {
	s.mu.Lock()
	overdue := s.stopTimeoutLocked()
	s.inFlight = nil
	ended := s.nodes.env.Clock.Now()
	s.inspectLocked(ended)
	for i, c := range s.batch {
		switch {
		case c.Until == 0:
		case UndoFailed(&s.replies[i]):
			s.gone = s.gone || errors.Is(s.replies[i].Err, node.ErrClosed)
			s.keepLocked(c, ended)
		case c.retried:
			s.requeueLocked()
		}
		if c.answered && !c.late {
			s.batch[i] = nil
		} else {
			c.answered = true
		}
	}
	s.mu.Unlock()

	for i, c := range s.batch {
		switch {
		case c == nil:
		case c.late:
			if to, ok := c.To.(LateReceiver); ok {
				to.AnswerLate(c, &s.replies[i])
			}
		default:
			c.To.Answer(c, &s.replies[i])
		}
	}
	clear(s.batch)
	clear(s.ops)

	failure := s.nodeFailure(failureOf(s.replies)) // without s.mu: it may look at the socket
	s.mu.Lock()
	return s.concluded(ended, overdue, failure)
}

// concluded records how an exchange or a probe ended. If the node failed, it answers all queued
// calls. It requires s.mu, and unlocks it.
func (s *sender) concluded(now time.Duration, overdue bool, failure error) (alive bool) {
	connecting := s.connecting
	s.connecting = false
	s.connectedLocked(failure)
	if failure == nil {
		recovered := false
		if !connecting { // connecting takes several round trips
			recovered = s.health.answered(now - s.began)
		}
		if recovered || overdue {
			s.requeueLocked()
		}
		s.mu.Unlock()
		if recovered {
			s.nodes.env.Events.NodeUp(s.node.Name())
		}
		return true
	}
	news := s.health.failed(now, failure, s.nodes.env.Jitter())
	refused := s.refuseQueueLocked(now)
	if len(s.kept) > 0 {
		s.armRetryLocked()
	}
	s.busy = false
	s.mu.Unlock()

	reason, cause := node.ErrDown, failure
	if connecting {
		reason, cause = splitFailure(failure)
	}
	s.fail(refused, reason, cause, true)
	if news {
		s.nodes.env.Events.NodeDown(s.node.Name(), failure)
	}
	return false
}

// failureOf returns why an exchange shows that the node is down, or nil. One operation that the
// server answered, even with an error, shows that it is up.
func failureOf(replies []node.Reply) error {
	for _, r := range replies {
		if r.Err == nil || !r.Unsent && isAnswer(r.Err) {
			return nil
		}
	}
	return replies[0].Err
}

// isAnswer reports whether an error came from a working server.
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
