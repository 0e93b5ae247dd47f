package wait

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client stands for the client of queues: it makes errors, and ignores events.
type client struct{ nodes *nodeEvents }

func (client) NoQuorum(s lease.Shortage) error { return fmt.Errorf("%s: no quorum", s.Op) }
func (client) Held(h lease.Holder) error       { return fmt.Errorf("%w: %s", lease.ErrHeld, h.Owner) }

func (client) Lost(l lease.Loss) error { return fmt.Errorf("%w: %s", lease.ErrLost, l.Cause) }

func (client) TooManyPermits(asked, size int) error {
	return fmt.Errorf("%d of %d permits", asked, size)
}
func (client) Voted(*lease.Grant, lease.Vote)                   {}
func (client) Renewed(*lease.Grant, time.Duration)              {}
func (client) RenewalFailed(*lease.Grant, time.Duration, error) {}
func (client) BackingChanged(*lease.Grant, int, int)            {}
func (client) Ended(*lease.Lease, time.Duration, bool, error)   {}
func (client) LossFound(*lease.Lease, error)                    {}
func (client) AttemptFailed(*lease.Spec, int, error)            {}
func (client) CannotFollow(string, error)                       {}
func (client) LatchCounted(int, string)                         {}
func (client) SubscriptionsChanged()                            {}

// nodeEvents passes on that nodes have capacity, and ignores the other news of nodes.
type nodeEvents struct{ queues *Queues }

func (nodeEvents) NodeDown(string, error)                            {}
func (nodeEvents) NodeUp(string)                                     {}
func (nodeEvents) NodeRecovering(string, time.Time, time.Time, bool) {}
func (nodeEvents) NodeRecovered(string)                              {}
func (nodeEvents) NodeRefuses(string, error)                         {}
func (nodeEvents) NodeServes(string)                                 {}
func (nodeEvents) MayEvict(string, string)                           {}
func (nodeEvents) LossesUnseen(string, string)                       {}
func (nodeEvents) SameServer(string, string)                         {}

func (e *nodeEvents) CapacityFreed() {
	if e.queues != nil {
		e.queues.OnCapacity()
	}
}

// newQueues returns the queues and the engine of a client of n in-memory nodes, which are initialized.
func newQueues(t *testing.T, n int, wrap ...func(node.Node) node.Node) (*Queues, *lease.Engine) {
	t.Helper()
	limits := wire.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}
	var nodes []node.Node
	for i := range n {
		m := memory.New(fmt.Sprintf("n%d", i+1), clock.Process())
		replies := make([]wire.Reply, 1)
		m.Do(t.Context(), []wire.Op{{Kind: wire.Mark, Limits: limits}}, replies)
		m.Do(t.Context(), []wire.Op{{Kind: wire.Open, Limits: limits, Marker: replies[0].Marker}}, replies)
		require.Equal(t, wire.Granted, replies[0].Outcome)
		var nd node.Node = m
		for _, f := range wrap {
			nd = f(nd)
		}
		nodes = append(nodes, nd)
	}
	half := func() float64 { return 0.5 }
	events := &nodeEvents{}
	qs, e := New(lease.Env{
		ID: "me", Clock: clock.Process(), Jitter: half, Limits: limits, Timeout: 500 * time.Millisecond,
		Nodes: dispatch.New(nodes, dispatch.Env{
			Clock: clock.Process(), TimeoutMin: 10 * time.Second, TimeoutMax: 10 * time.Second, // a stall of the machine is no failure
			ConnectTimeout: 2 * time.Second, Jitter: half, Recovery: limits.Recovery(), Events: events,
		}),
		MaxHandovers: 16, HandoverTime: 100 * time.Millisecond, Errors: client{}, Events: client{events},
	}, Env{
		RetryMin: 10 * time.Millisecond, RetryMax: 200 * time.Millisecond,
		Slots: slots.NewPools(n, half), Events: client{},
	})
	events.queues = qs
	return qs, e
}

// specOf is the spec of a lock that need nodes must grant.
func specOf(need int, names ...string) *lease.Spec {
	return &lease.Spec{Names: names, Queue: [1]string{JoinNames(names)}, Need: need, TTL: 10 * time.Second, HandOver: true}
}
