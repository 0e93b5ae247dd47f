package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	"github.com/quorumlock/quorumlock/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTTL = 10 * time.Second

// client stands for the client of an engine: it makes errors, records ends, and takes over grants.
type client struct {
	engine *Engine
	nodes  []*memory.Node
	// story has the ends of leases and the hand-overs, in order.
	story []string
	ended []error
	// heir is the spec of a waiter that takes over, or nil. heirs are the leases that it got.
	heir  *Spec
	heirs []*Lease
	// handedOver gets a value for each hand-over, or is nil.
	handedOver chan struct{}
}

// shortageError is the error for a Shortage.
type shortageError struct{ Shortage }

func (e *shortageError) Error() string {
	return fmt.Sprintf("%s: %d of %d agreed", e.Op, e.Agreed, e.Total)
}

func (*client) NoQuorum(s Shortage) error { return &shortageError{s} }
func (*client) Held(h Holder) error       { return fmt.Errorf("%w: %s", ErrHeld, h.Owner) }
func (*client) Lost(l Loss) error         { return fmt.Errorf("%w: %s", ErrLost, l.Cause) }
func (*client) TooManyPermits(asked, size int) error {
	return fmt.Errorf("%d of %d permits", asked, size)
}
func (*client) Voted(*Grant, Vote)                         {}
func (*client) Renewed(*Grant, time.Duration)              {}
func (*client) RenewalFailed(*Grant, time.Duration, error) {}
func (*client) BackingChanged(*Grant, int, int)            {}
func (*client) LossFound(*Lease, error)                    {}
func (*client) OnTaken(*Grant)                             {}
func (*client) OnReleased(*Grant)                          {}

func (c *client) Ended(_ *Lease, _ time.Duration, _ bool, cause error) {
	c.story, c.ended = append(c.story, "ended"), append(c.ended, cause)
}

func (c *client) HandOver(_ *Grant, next func(*Spec) *Lease) bool {
	if c.heir == nil {
		return false
	}
	c.heirs = append(c.heirs, next(c.heir))
	c.story = append(c.story, "handed over")
	if c.handedOver != nil {
		c.handedOver <- struct{}{}
	}
	return true
}

// nodeEvents are the news of nodes, which the tests ignore.
type nodeEvents struct{ c *client }

func (nodeEvents) NodeDown(string, error)                            {}
func (nodeEvents) NodeUp(string)                                     {}
func (nodeEvents) NodeRecovering(string, time.Time, time.Time, bool) {}
func (nodeEvents) NodeRecovered(string)                              {}
func (nodeEvents) NodeRefuses(string, error)                         {}
func (nodeEvents) NodeServes(string)                                 {}
func (nodeEvents) MayEvict(string, string)                           {}
func (nodeEvents) LossesUnseen(string, string)                       {}
func (nodeEvents) SameServer(string, string)                         {}
func (e nodeEvents) CapacityFreed()                                  { e.c.engine.OnCapacity() }

// inside runs a test on the engine of a client of n in-memory nodes, in virtual time.
func inside(t *testing.T, n int, test func(t *testing.T, c *client), wraps ...func(node.Node) node.Node) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &client{}
		var nodes []node.Node
		limits := wire.Limits{MaxTTL: testTTL, MaxClockSkew: time.Second}
		for i := range n {
			m := memory.New(fmt.Sprintf("n%d", i+1), clock.Process())
			setUp(t, m, limits)
			c.nodes = append(c.nodes, m)
			nodes = append(nodes, m)
			for _, wrap := range wraps {
				nodes[i] = wrap(m)
			}
		}
		sent := dispatch.New(nodes, dispatch.Env{
			Clock: clock.Process(), TimeoutMin: 250 * time.Millisecond, TimeoutMax: 500 * time.Millisecond,
			ConnectTimeout: 2 * time.Second, Jitter: half, Recovery: limits.Recovery(), Events: nodeEvents{c},
		})
		c.engine = New(Env{
			ID: "me", Clock: clock.Process(), Jitter: half, Nodes: sent, Limits: limits, Timeout: 500 * time.Millisecond,
			MaxHandovers: 16, HandoverTime: 100 * time.Millisecond, Locals: c, Errors: c, Events: c,
		})
		test(t, c)
		c.engine.Close()
		sent.Close()
	})
}

func half() float64 { return 0.5 }

// setUp initializes a node, as package admin does.
func setUp(t *testing.T, n node.Node, limits wire.Limits) {
	t.Helper()
	replies := make([]wire.Reply, 1)
	n.Do(t.Context(), []wire.Op{{Kind: wire.Mark, Limits: limits}}, replies)
	require.NoError(t, replies[0].Err)
	n.Do(t.Context(), []wire.Op{{Kind: wire.Open, Limits: limits, Marker: replies[0].Marker}}, replies)
	require.Equal(t, wire.Granted, replies[0].Outcome)
}

// majority is the spec of a lock that needs a majority of the nodes.
func (c *client) majority(name string) *Spec {
	return &Spec{Names: []string{name}, Queue: [1]string{name}, Need: quorum.Majority().Need(len(c.nodes)), TTL: testTTL, HandOver: true}
}

// fixed is a majority that does not renew.
func (c *client) fixed() *Spec {
	s := c.majority("job")
	s.Fixed, s.HandOver = true, false
	return s
}

// limited is a majority with a hold limit.
func (c *client) limited(most time.Duration) *Spec {
	s := c.majority("job")
	s.MaxHold = most
	return s
}

// acquire makes one attempt, which must succeed. It reserves tokens for hand-overs.
func (c *client) acquire(t *testing.T, s *Spec) *Lease {
	t.Helper()
	l, _, err := c.engine.Attempt(t.Context(), s, Request{Began: c.engine.Clock.Now(), Reserve: s.HandOver})
	require.NoError(t, err)
	return l
}

// attempt is an attempt that the test makes by hand, and grant its grant.
func (c *client) attempt() *attempt { return newAttempt(c.engine, c.majority("job"), Request{}) }

func (c *client) grant() *Grant { return c.attempt().grant }

// release gives a lease back, and returns what its holder is told.
func release(l *Lease) error {
	now := l.Engine().Clock.Now()
	r, err := l.BeginRelease(now, l.ErrAt(now))
	if r == nil {
		return err
	}
	return r.Wait()
}

// extend renews a lease now, and returns what its holder is told.
func extend(ctx context.Context, l *Lease) error {
	done := make(chan error, 1)
	if err := l.Extend(done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-l.Context().Done():
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asleep keeps the scheduler from running. This stretches the time between the end of a lease and
// the tick that notices it.
func (c *client) asleep(asleep bool) {
	s := &c.engine.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if asleep {
		for s.running != nil { // The current run ends first.
			running := s.running
			s.mu.Unlock()
			<-running
			s.mu.Lock()
		}
		s.running = make(chan struct{})
	} else {
		close(s.running)
		s.running = nil
	}
}

// keys counts the keys on all nodes, once everything has settled.
func (c *client) keys() (n int) {
	synctest.Wait()
	for _, nd := range c.nodes {
		n += len(nd.Keys())
	}
	return n
}

// answered is a call of an acquisition to node i that was sent at the given time.
func answered(i int, sent time.Duration) *dispatch.Call {
	c := dispatch.NewCalls(i+1, wire.Op{}).To(i)
	c.Sent = sent
	return c
}

func granted() *wire.Reply { return &wire.Reply{Outcome: wire.Granted} }

func failed() *wire.Reply { return &wire.Reply{Err: errors.New("no")} }

func denied() *wire.Reply {
	return &wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "job", Owner: "x", TTL: time.Second}}
}
