// Package inbox keeps a client's subscriptions: one on each node, through which the node wakes the
// client's waiters.
//
// Subscriptions are opened when the first waiter needs them, opened again after a loss, and
// closed when no waiter has needed them for a while. In a mixed fleet they also get what Redisson
// announces.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

const (
	// retryAfter is the pause between a failed subscription and the next try.
	retryAfter = time.Second
	// linger is how long subscriptions stay open for the next waiter.
	linger = 10 * time.Second
)

// Handler gets what arrives through the subscriptions. All methods but Message are called with
// the mutex of the Set held: they must not block, and must not call the Set.
type Handler interface {
	// Message is called for each message to this client, one after another for a node.
	Message(i int, m wire.Message)
	// Opened says that messages of node i arrive from now on. Earlier ones may have been missed.
	Opened(i int)
	// Lost says that messages of node i do not arrive, until Resubscribed or Opened.
	Lost(i int)
	// Resubscribed says that messages of node i arrive again. Some may have been missed.
	Resubscribed(i int)
	// Settled says that a subscription was opened or failed, and none is being opened now.
	Settled()
	// CannotFollow says, once for each node, that node i does not let this client hear of
	// Redisson's releases.
	CannotFollow(i int, err error)
}

// Set is the subscriptions of one client. It is safe for concurrent use.
type Set struct {
	clock   clock.Clock
	nodes   []node.Node
	id      string
	follows bool
	handler Handler

	// ctx ends with Close; tasks open and close subscriptions.
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu            sync.Mutex
	subscriptions []subscription
	// users counts the calls of Use without a Done.
	users  int
	idle   clock.Timer
	closed bool
}

type subscription struct {
	// opening is set while it is being opened, lost while it is there but broken.
	opening, lost bool
	inbox         wire.Inbox
	// number tells it from earlier ones.
	number int
	// retryAt is when to try again after a failure; 0 if the last try succeeded, or there was none.
	retryAt time.Duration
	// reported is set once the node has refused to let it follow Redisson.
	reported bool
}

// New returns a set for the client with this id, with no open subscription. With followRedisson
// the subscriptions also get the messages for Redisson's clients.
func New(c clock.Clock, nodes []node.Node, id string, followRedisson bool, h Handler) *Set {
	s := &Set{
		clock: c, nodes: nodes, id: id, follows: followRedisson, handler: h,
		subscriptions: make([]subscription, len(nodes)),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Use opens the subscriptions for a waiter. Done must follow.
func (s *Set) Use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	s.subscribeLocked()
}

// Done ends one Use.
func (s *Set) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.lingerLocked()
}

// Open reports whether any subscription is open.
func (s *Set) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodesLocked(func(sub *subscription) bool { return sub.inbox != nil }) != 0
}

// nodesLocked returns the nodes whose subscriptions are so, as a bit set.
func (s *Set) nodesLocked(is func(*subscription) bool) (nodes uint64) {
	for i := range s.subscriptions {
		if is(&s.subscriptions[i]) {
			nodes |= 1 << i
		}
	}
	return nodes
}

// Listening returns the nodes whose messages arrive, as a bit set. settled is false while
// subscriptions are being opened. Missing ones are opened again if they are in use.
func (s *Set) Listening() (nodes uint64, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribeLocked()
	return s.nodesLocked(func(sub *subscription) bool { return sub.inbox != nil && !sub.lost }), s.settledLocked()
}

// Opening returns the nodes whose messages are likely to arrive soon, as a bit set: their
// subscriptions are being opened, and have not failed since the last success.
func (s *Set) Opening() (nodes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodesLocked(func(sub *subscription) bool { return sub.opening && sub.retryAt == 0 })
}

// Close closes all subscriptions, and waits until they are closed.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.cancel()
	s.closeAllLocked()
	s.mu.Unlock()
	s.tasks.Wait()
	// Now the subscriptions that were being opened.
	s.mu.Lock()
	s.closeAllLocked()
	s.mu.Unlock()
	s.tasks.Wait()
}

// subscribeLocked opens the subscriptions that are missing, except where that has just failed.
func (s *Set) subscribeLocked() {
	if s.closed || s.users == 0 {
		return
	}
	for i := range s.subscriptions {
		sub := &s.subscriptions[i]
		if sub.inbox != nil || sub.opening || sub.retryAt > 0 && s.clock.Now() < sub.retryAt {
			continue
		}
		sub.opening = true
		s.tasks.Go(func() { s.open(i) })
	}
}

func (s *Set) open(i int) {
	s.mu.Lock()
	sub := &s.subscriptions[i]
	sub.number++
	number := sub.number
	sub.lost = false // it may be lost before Listen returns
	s.mu.Unlock()
	inbox, refusal, err := s.listen(i, number)
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.opening, sub.inbox = false, inbox
	if err != nil {
		sub.retryAt = s.clock.Now() + retryAfter
	} else {
		sub.retryAt = 0
		if refusal != nil && !sub.reported {
			sub.reported = true
			s.handler.CannotFollow(i, refusal)
		}
		s.handler.Opened(i)
	}
	s.lingerLocked()
	if s.settledLocked() {
		s.handler.Settled()
	}
}

// listen subscribes to node i. If the node refuses to let the subscription follow Redisson, it does without.
func (s *Set) listen(i, number int) (inbox wire.Inbox, refusal, err error) {
	deliver := func(m wire.Message) { s.deliver(i, number, m) }
	inbox, err = Listen(s.ctx, s.nodes[i], s.id, s.follows, deliver)
	var refused *node.Error
	if s.follows && errors.As(err, &refused) && refused.Permanent() {
		refusal = err
		inbox, err = Listen(s.ctx, s.nodes[i], s.id, false, deliver)
	}
	return inbox, refusal, err
}

func (s *Set) settledLocked() bool {
	for i := range s.subscriptions {
		if s.subscriptions[i].opening {
			return false
		}
	}
	return true
}

// deliver is called by the subscription with this number on node i.
func (s *Set) deliver(i, number int, m wire.Message) {
	switch m.Kind {
	case wire.Lost:
		s.changed(i, number, true)
	case wire.Resubscribed:
		s.changed(i, number, false)
	default:
		s.handler.Message(i, m)
	}
}

// changed records that a subscription was lost or is back, unless it has been replaced.
func (s *Set) changed(i, number int, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := &s.subscriptions[i]
	if sub.number != number {
		return
	}
	sub.lost = lost
	if lost {
		s.handler.Lost(i)
	} else {
		s.handler.Resubscribed(i)
	}
}

// lingerLocked closes the subscriptions after a while if they are not in use.
func (s *Set) lingerLocked() {
	switch {
	case s.users > 0 || s.closed:
	case s.idle == nil:
		s.idle = s.clock.AfterFunc(linger, s.onIdle)
	default:
		s.idle.Reset(linger)
	}
}

func (s *Set) onIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		s.closeAllLocked()
	}
}

func (s *Set) closeAllLocked() {
	for i := range s.subscriptions {
		sub := &s.subscriptions[i]
		if inbox := sub.inbox; inbox != nil {
			sub.inbox = nil
			sub.number++
			s.tasks.Go(func() { _ = inbox.Close() })
		}
	}
}

// Listen calls the node's Listen. It refuses a client that cannot be the part of an id before a colon.
func Listen(ctx context.Context, n node.Node, client string, follows bool, deliver func(wire.Message)) (wire.Inbox, error) {
	if client == "" || strings.Contains(client, ":") {
		return nil, &node.Error{Node: n.Name(), Reason: node.ErrMisconfigured, Err: fmt.Errorf("invalid client id %.30q", client)}
	}
	return n.Listen(ctx, client, follows, deliver)
}
