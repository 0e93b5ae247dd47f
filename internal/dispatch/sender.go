package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// sender carries calls to one node: a queue, and a goroutine for each exchange under way.
//
// A call to an idle sender is sent at once, in a goroutine of the errgroup. Calls that come
// while an exchange is under way wait, and leave together in one pipelined exchange (group
// commit). So a lone caller sees a plain parallel fan-out. A thousand callers share a few
// goroutines and round trips. An idle client has no goroutine at all.
//
// There is one exchange at a time, except to a node that is far away; see [flight]. In both
// cases an operation never overtakes one that was submitted before it and shares a name with it.
type sender struct {
	index int
	node  node.Node
	// connector is the node, if it can say whether it is connected.
	connector wire.Connector
	shared    *shared

	mu    sync.Mutex
	queue callQueue
	// flights are the exchanges under way.
	flights flights
	// kept are undos that failed and wait to be repeated.
	kept []*Call
	// workers is how many goroutines there are.
	workers int
	// soonest is the earliest deadline of a call that has no answer, or 0.
	soonest time.Duration
	// closed is set when failed undos are no longer kept, gone when the node itself was closed.
	closed, gone bool
	// dropped counts releases that were given up. The last of their keys expires at droppedUntil.
	dropped      int
	droppedUntil time.Duration

	health health
	server server
	// asking says why a goroutine probes the node, if one does. connects are told once how that ended, or that it takes
	// too long.
	asking   asking
	connects []connectWaiter
	listing  listing
	// timeout runs onTimeout, and retry runs retryKept.
	timeout, retry alarm

	// run is drain, bound once to save an allocation per start.
	run func() error
}

func newSender(common *shared, index, count int, nd node.Node) *sender {
	s := &sender{
		index:  index,
		node:   nd,
		shared: common,
		queue:  callQueue{renewals: make([]int, count+1)},
		health: newHealth(common.env.TimeoutMin, common.env.TimeoutMax),
		server: newServer(common, index, nd),
	}
	s.connector, _ = nd.(wire.Connector)
	s.flights.node = nd
	s.timeout = alarm{clock: common.env.Clock, run: s.onTimeout}
	s.retry = alarm{clock: common.env.Clock, run: s.retryKept}
	s.run = s.drain
	return s
}

// submit implements Nodes.Submit.
func (s *sender) submit(c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.setNode(s.index)
	if reason, err := s.refusalLocked(c); reason != nil {
		refused := &node.Error{Node: s.node.Name(), Op: c.Op.Kind.String(), Reason: reason, Err: err}
		if c.Until > 0 {
			c.answered = true
			s.deferUndoLocked(c)
		}
		return refused
	}
	if c.Front {
		s.queue.undos = append(s.queue.undos, c)
	} else {
		s.queue.calls, c.place = append(s.queue.calls, c), queued
	}
	s.queue.count(c, 1)
	s.expectLocked(c)
	if s.workers == 0 || s.overlapsLocked(c.Op) {
		s.addWorkerLocked()
	}
	return nil
}

// refusalLocked says why a call cannot be sent now: a reason of package node, and its cause. A
// node that is down is asked again when its pause is over, by one call. Others are
// refused until that is answered.
func (s *sender) refusalLocked(c *Call) (reason, err error) {
	switch {
	case s.closed && (c.Until == 0 || s.workers == 0): // a running sender still accepts undos of its operations
		return node.ErrClosed, nil
	case s.flights.overdue > 0:
		return node.ErrDown, node.ErrTimeout
	case s.pausedLocked(c.Urgent):
		return node.ErrDown, s.health.err
	case c.Until == 0 && s.queue.length() >= maxQueue:
		return node.ErrBusy, nil
	}
	if s.shared.env.List.Key == "" {
		return nil, nil
	}
	reason, err = s.listing.forbids(c, s.shared.lists.refusal.Load())
	switch {
	case reason == nil || s.listing.knows:
	case s.health.down:
		s.startLocked() // it is probed, and then asked for the list
	case s.listing.mustTell(s.shared.env.Clock.Now()):
		s.shared.lists.tell()
	}
	return reason, err
}

// overlapsLocked reports whether to send an operation now, beside the flights. A goroutine that is not waiting for an
// answer takes it otherwise.
func (s *sender) overlapsLocked(op *wire.Op) bool {
	return s.workers == s.flights.unanswered && s.asking == notAsking && !s.health.down && s.flights.admit(op)
}

// pausedLocked reports whether the node is down, and its next probe is not due yet or is under way.
func (s *sender) pausedLocked(urgent bool) bool {
	return s.health.down && !urgent && (s.workers > 0 || s.shared.env.Clock.Now() < s.health.probeAt)
}

// startLocked starts a goroutine, unless there is one.
func (s *sender) startLocked() {
	if s.workers == 0 {
		s.addWorkerLocked()
	}
}

func (s *sender) addWorkerLocked() {
	s.workers++
	s.shared.goroutines.Go(s.run)
}

// drain is a goroutine: it sends batch after batch until there is nothing to send or the node fails.
func (s *sender) drain() error {
	growStack(0)
	for s.ready() {
		f := s.take()
		if f == nil {
			break
		}
		s.node.Do(context.Background(), f.ops, f.replies)
		if !s.settle(f) {
			break
		}
	}
	return nil
}

// growStack gives a new goroutine the stack that an exchange needs. Later the runtime would copy all frames of the exchange,
// and twice: a tenth of the client's processor time for a lone lock.
//
//go:noinline
func growStack(i int) byte {
	var frame [5 << 10]byte
	return frame[i]
}

// ready makes sure that the node can be asked: that it answers again, if it was down, and that it
// is connected, if the node can tell. Calls that are queued meanwhile wait for that.
func (s *sender) ready() bool {
	s.mu.Lock()
	down, waiters := s.health.down, len(s.connects)
	s.mu.Unlock()
	switch {
	case down:
		return s.ask(probing)
	case s.connector != nil && !s.connector.Connected(), s.connector == nil && waiters > 0:
		return s.ask(connecting)
	default:
		return true
	}
}

// take begins a flight with calls from the queue. If there are none to send, it ends the goroutine.
func (s *sender) take() *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == notAsking {
		s.connectedLocked(nil) // for waiters that came after the node was ready, or during an exchange
	}
	f := s.flights.make()
	s.flights.hold()
	s.queue.fill(f, s.flights.names)
	if len(f.batch) == 0 {
		s.flights.spare = append(s.flights.spare, f)
		s.workers--
		return nil
	}
	now := s.shared.env.Clock.Now()
	for _, c := range f.batch {
		c.Sent, c.late = now, false // an undo that is sent again may have been late before
		f.ops = append(f.ops, *c.Op)
		f.replies = append(f.replies, wire.Reply{})
	}
	s.shared.env.Events.CapacityFreed()
	f.identity, _ = s.node.Server()
	s.flights.begin(f, now, s.health.timeout)
	s.timeout.arm(now, f.deadline)
	return f
}

// settle passes the answers of the batch on, and reports whether to go on. The flight holds
// its names until then, so the answers to calls that share a name come in order too.
func (s *sender) settle(f *flight) bool {
	s.mu.Lock()
	s.flights.answered(f)
	ended := s.shared.env.Clock.Now()
	s.server.inspect(f, ended)
	for i, c := range f.batch {
		switch {
		case c.Until == 0:
		case UndoFailed(&f.replies[i]):
			s.gone = s.gone || errors.Is(f.replies[i].Err, node.ErrClosed)
			s.keepLocked(c, ended)
		case c.retried:
			s.requeueLocked()
		}
		if c.answered && !c.late {
			f.batch[i] = nil
		} else {
			c.answered = true
		}
	}
	s.mu.Unlock()

	for i, c := range f.batch {
		switch {
		case c == nil:
		case c.late:
			if to, ok := c.To.(LateReceiver); ok {
				to.AnswerLate(c, &f.replies[i])
			}
		default:
			c.To.Answer(c, &f.replies[i])
		}
	}

	failure := failureOf(f.replies)
	excused := failure != nil && s.excuses(failure) // without s.mu: it may look at the socket
	s.mu.Lock()
	return s.concluded(f, ended, failure, excused)
}

// concluded records how an exchange or a probe ended. If the node failed, it answers all queued
// calls. It reports whether the goroutine goes on. It requires s.mu, and unlocks it.
func (s *sender) concluded(f *flight, now time.Duration, failure error, excused bool) (goOn bool) {
	began, overdue, asked, why := f.began, f.overdue, len(f.batch) == 0, notAsking
	works := !asked && f.ops[0].Kind != wire.Enlist
	s.flights.end(f)
	if asked {
		why, s.asking = s.asking, notAsking
		s.connectedLocked(failure)
	}
	if failure == nil || excused {
		recovered := false
		switch {
		case why == connecting, excused:
		case asked: // a probe may have connected, which takes several round trips
			recovered = s.health.up()
		default:
			recovered = s.health.answered(now - began)
		}
		if recovered || overdue {
			s.requeueLocked()
		}
		if recovered || works && s.listing.mustTell(now) {
			s.shared.lists.returned(recovered)
		}
		if recovered {
			s.shared.env.Events.NodeUp(s.node.Name())
		}
		goOn = s.goesOnLocked()
		s.mu.Unlock()
		return goOn
	}
	news := false
	if asked || !s.health.down { // exchanges that were under way together fail together
		news = s.health.failed(now, failure, s.shared.env.Jitter())
		s.listing.failed(&s.shared.lists)
	}
	refused := s.refuseQueueLocked(now)
	if len(s.kept) > 0 {
		s.armRetryLocked()
	}
	goOn = s.goesOnLocked()
	if news { // before another goroutine can find that the node is up again
		s.shared.env.Events.NodeDown(s.node.Name(), failure)
	}
	s.mu.Unlock()

	reason, cause := node.ErrDown, failure
	if why == connecting {
		reason, cause = splitFailure(failure)
	}
	s.fail(refused, reason, cause, true)
	return goOn
}

// goesOnLocked ends a goroutine that has nothing to do, and otherwise reports true. A call of Connect that came during
// an exchange needs a probe if that failed.
func (s *sender) goesOnLocked() bool {
	if s.queue.empty() && len(s.connects) == 0 {
		s.workers--
		return false
	}
	return true
}

// withdraw implements Nodes.Withdraw.
func (s *sender) withdraw(c *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place != queued || c.answered || c.Until != 0 {
		return false
	}
	c.place = withdrawn
	s.queue.count(c, -1)
	s.queue.withdrawn++
	s.queue.dropWithdrawn()
	s.shared.env.Events.CapacityFreed()
	return true
}
