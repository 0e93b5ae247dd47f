package quorumlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// The defaults of a [Config], and limits that have no setting.
const (
	// DefaultTTL is the TTL of a lock, and the largest one allowed. It is short on
	// purpose: it bounds how long a dead holder blocks others.
	DefaultTTL = 10 * time.Second
	// DefaultMaxClockSkew is how far clocks may be apart.
	DefaultMaxClockSkew = time.Second
	// MinTTL is the smallest TTL. Below, drift and scheduling leave nothing of it.
	MinTTL = 10 * time.Millisecond
	// MaxNameLength is the longest name of a lock, in bytes.
	MaxNameLength = 512
	// MaxNames is the most names that one MultiLock can take.
	MaxNames = 128
	// maxMaxTTL keeps sums of times far from overflow. Nobody wants to wait so long.
	maxMaxTTL = 365 * 24 * time.Hour
)

// Config describes a client. The zero value of each field means its default; New
// checks all of it at once and names everything that is wrong.
type Config struct {
	// Nodes are the independent deployments, an odd number of them. Closing them is
	// up to whoever made them.
	Nodes []node.Node
	// Addresses are an alternative to Nodes: Redis servers, as host:port, redis://,
	// rediss:// or unix:// (see node.ParseAddress). The client owns these nodes.
	Addresses []string
	// AllowEven permits an even number of nodes. It is not the default, because four
	// nodes survive the loss of one, as three do, and offer one more to lose.
	AllowEven bool

	// TTL is how long nodes keep a lock without renewal: DefaultTTL, or MaxTTL where
	// that is less. It can be set per lock. Fractions of a millisecond are dropped.
	TTL time.Duration
	// MaxTTL bounds every TTL. It must be the same in all clients of the same nodes.
	// Default: DefaultTTL. A node that has lost its memory gives no new locks for
	// MaxTTL and MaxClockSkew together.
	MaxTTL time.Duration
	// MaxClockSkew is how far the clock of a client may be ahead of a node's. It
	// matters for fencing tokens only; a client that is off by more is refused. It must
	// be the same in all clients of the same nodes, and at most half of MaxTTL.
	// Default: one second, or that half where it is less.
	MaxClockSkew time.Duration
	// MaxHold ends every lease that lasts longer, however well it renews. Default: no
	// limit. It can be set per lock.
	MaxHold time.Duration

	// NodeTimeoutMin and NodeTimeoutMax bound how long one operation waits for one
	// node; in between, the timeout follows the node's observed latency. Defaults of the
	// maximum: a tenth of the TTL, at least 100 ms and at most 500 ms. Default of the minimum:
	// half of the maximum, as a healthy node may be so late on a busy machine.
	//
	// The operations of one lock wait for a third of its TTL at most, in whole milliseconds.
	// So a lock with a short TTL needs no other setting. A timeout that is set is never
	// shortened: a TTL under three times that is refused.
	NodeTimeoutMin, NodeTimeoutMax time.Duration
	// ConnectTimeout bounds how long an operation waits for a node to which there is no connection
	// yet, or no more as it was closed while it was idle. To connect takes three round trips, with
	// TLS four or five, and is not taken off any TTL. A node that takes longer counts as one that does
	// not answer; connecting goes on, and a later operation finds the connection. An address
	// can say dial_timeout for itself. Default: four times NodeTimeoutMax, one second at least.
	ConnectTimeout time.Duration
	// RetryMin and RetryMax bound the pause between two attempts where nodes cannot be
	// relied on to tell when the lock is free: with WaitSpin, or while too few of them
	// answer. It grows from one to the other, with jitter, and up to eight times the latency of the
	// nodes where that is more, so that contenders do not keep each other out. Defaults: 10 ms and 200 ms.
	RetryMin, RetryMax time.Duration

	// Holder is how people recognise this client in the ids of its leases: printable, without
	// spaces, at most MaxHolderLength bytes. See [ParseOwner]. Default: host/pid; NoHolder is nothing.
	Holder string

	// Waiting is how Acquire waits for a lock that somebody else holds. It can be set per
	// lock. Default: WaitQueued.
	Waiting Waiting
	// Handover bounds how a lease passes among the waiters of this client. It can be turned
	// off per lock.
	Handover Handover

	// Redisson is for fleets in which Java services lock the same names on the same nodes
	// through Redisson: releases are announced on its channel too, and waiters listen there,
	// so that those of either side are woken at once. Redisson wakes all of its waiters, so
	// it costs a message to each of them per release. Set it in all clients alike; without
	// it, both sides exclude each other all the same, and find out later.
	Redisson bool

	// Clock is the source of time. Default: clock.System().
	Clock clock.Clock
	// Jitter gives random numbers in [0, 1), which spread what many clients would
	// otherwise do at the same instant. A simulation sets it, to have every run alike; it
	// must be safe for concurrent use. Default: that of math/rand/v2.
	Jitter func() float64
	// Logger gets a warning when a lease is lost or leaks, and when a node goes down,
	// has lost its memory, refuses this client, or is another node by another address;
	// the end of that is at level Info. Default: slog.Default().
	Logger *slog.Logger
	// Hooks are told what happens.
	Hooks Hooks

	// timeoutMinSet and timeoutMaxSet tell timeouts that were set from defaults.
	timeoutMinSet, timeoutMaxSet bool
}

// LockOptions are the settings of one lock. The zero value of each field means what
// the client's Config says.
type LockOptions struct {
	// TTL is how long nodes keep the lock without renewal. Fractions of a millisecond are
	// dropped.
	TTL time.Duration
	// MaxHold ends a lease that lasts longer.
	MaxHold time.Duration
	// Fixed turns renewal off: the lease ends TTL after its grant, a little less for
	// drift, unless Extend is called.
	Fixed bool
	// Waiting is how Acquire waits for a lock that somebody else holds.
	Waiting Waiting
	// NoHandover keeps a lease from being handed over to another waiter of the client, and
	// a waiter from getting one.
	NoHandover bool
	// Purpose is what the lock is taken for, for people: printable, at most MaxPurposeLength bytes.
	// It is part of the lease's id on the nodes: see [ParseOwner]. So a lease is handed over within
	// the client only to waiters with the same.
	Purpose string
	// Rule says how many nodes must agree, where a majority is not enough. Default: a
	// majority for RedLock, all for MultiLock.
	Rule quorum.Rule
}

// withDefaults fills in what was left open. Values that make no sense are kept for
// problems to find.
func (c Config) withDefaults() Config {
	c.MaxTTL = orDefault(c.MaxTTL, DefaultTTL)
	c.MaxClockSkew = orDefault(c.MaxClockSkew, min(DefaultMaxClockSkew, (c.MaxTTL/2).Truncate(time.Millisecond)))
	c.TTL = wholeTTL(orDefault(c.TTL, min(DefaultTTL, c.MaxTTL)))
	c.timeoutMinSet, c.timeoutMaxSet = c.NodeTimeoutMin != 0, c.NodeTimeoutMax != 0
	c.NodeTimeoutMax = orDefault(c.NodeTimeoutMax, min(500*time.Millisecond, max(c.TTL/10, 100*time.Millisecond)))
	c.NodeTimeoutMin = orDefault(c.NodeTimeoutMin, c.NodeTimeoutMax/2)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, max(4*c.NodeTimeoutMax, time.Second))
	c.RetryMax = orDefault(c.RetryMax, max(200*time.Millisecond, c.RetryMin))
	c.RetryMin = orDefault(c.RetryMin, min(10*time.Millisecond, c.RetryMax))
	c.Waiting = cmp.Or(c.Waiting, WaitQueued)
	c.Holder = cmp.Or(c.Holder, here())
	c.Handover = c.Handover.withDefaults()
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// wholeTTL drops the fraction of a millisecond, which nodes do not keep. A TTL that is too short
// stays as it was set, for problems to name it.
func wholeTTL(ttl time.Duration) time.Duration {
	if ttl < MinTTL {
		return ttl
	}
	return ttl.Truncate(time.Millisecond)
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Limits are what clients of the same nodes have to agree on, defaults filled in.
func (c Config) Limits() node.Limits { return c.withDefaults().limits() }

func (c Config) limits() node.Limits {
	return node.Limits{MaxTTL: c.MaxTTL, MaxClockSkew: c.MaxClockSkew}
}

// problems lists everything that is wrong with a Config whose defaults are filled in.
func (c Config) problems() []string {
	var p []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			p = append(p, fmt.Sprintf(format, args...))
		}
	}
	p = append(p, c.nodeProblems()...)
	add(c.MaxTTL < MinTTL, "MaxTTL %v is under %v", c.MaxTTL, MinTTL)
	add(c.MaxTTL > maxMaxTTL, "MaxTTL %v is over %v", c.MaxTTL, maxMaxTTL)
	add(c.MaxTTL%time.Millisecond != 0, "MaxTTL %v is not a whole number of milliseconds", c.MaxTTL)
	add(c.MaxClockSkew < 0, "MaxClockSkew %v is negative", c.MaxClockSkew)
	add(c.MaxClockSkew > c.MaxTTL/2, "MaxClockSkew %v is over half of MaxTTL %v", c.MaxClockSkew, c.MaxTTL)
	add(c.MaxClockSkew%time.Millisecond != 0, "MaxClockSkew %v is not a whole number of milliseconds", c.MaxClockSkew)
	add(c.NodeTimeoutMin < 0, "NodeTimeoutMin %v is negative", c.NodeTimeoutMin)
	add(c.NodeTimeoutMax < 0, "NodeTimeoutMax %v is negative", c.NodeTimeoutMax)
	add(c.NodeTimeoutMin > c.NodeTimeoutMax, "NodeTimeoutMin %v is over NodeTimeoutMax %v", c.NodeTimeoutMin, c.NodeTimeoutMax)
	add(c.ConnectTimeout < 0, "ConnectTimeout %v is negative", c.ConnectTimeout)
	add(c.RetryMin < 0, "RetryMin %v is negative", c.RetryMin)
	add(c.RetryMax < 0, "RetryMax %v is negative", c.RetryMax)
	add(c.RetryMin > c.RetryMax, "RetryMin %v is over RetryMax %v", c.RetryMin, c.RetryMax)
	add(c.MaxHold < 0, "MaxHold %v is negative", c.MaxHold)
	add(c.Waiting > WaitSpin, "unknown Waiting %d", c.Waiting)
	add(c.Handover.MaxCount < 0, "Handover.MaxCount %d is negative", c.Handover.MaxCount)
	add(c.Handover.MaxTime < 0, "Handover.MaxTime %v is negative", c.Handover.MaxTime)
	if problem := checkLabel("Holder", c.Holder, MaxHolderLength, false); problem != "" {
		p = append(p, problem)
	}
	return append(p, c.ttlProblems(c.TTL)...)
}

// ttlProblems lists what is wrong with a TTL under this Config.
func (c Config) ttlProblems(ttl time.Duration) []string {
	switch {
	case ttl <= 0:
		return []string{fmt.Sprintf("TTL %v is not positive", ttl)}
	case ttl < MinTTL:
		return []string{fmt.Sprintf("TTL %v is under %v", ttl, MinTTL)}
	case ttl > c.MaxTTL:
		return []string{fmt.Sprintf("TTL %v is over MaxTTL %v (raise MaxTTL in all clients of these nodes alike)", ttl, c.MaxTTL)}
	case c.timeoutMaxSet && c.NodeTimeoutMax > ttl/3:
		return []string{tooSmall(ttl, "NodeTimeoutMax", c.NodeTimeoutMax)}
	case c.timeoutMinSet && c.NodeTimeoutMin > ttl/3:
		return []string{tooSmall(ttl, "NodeTimeoutMin", c.NodeTimeoutMin)}
	default:
		return nil
	}
}

func tooSmall(ttl time.Duration, field string, timeout time.Duration) string {
	return fmt.Sprintf("TTL %v is too small for %s %v, which is set: the TTL must be three times that, to leave time for a second try; without that setting, the lock waits for a third of its TTL", ttl, field, timeout)
}

// nodeProblems lists what is wrong with the set of nodes.
func (c Config) nodeProblems() []string {
	n := len(c.Nodes) + len(c.Addresses)
	var p []string
	switch {
	case n == 0:
		return []string{"no nodes: set Nodes or Addresses"}
	case len(c.Nodes) > 0 && len(c.Addresses) > 0:
		p = append(p, "both Nodes and Addresses are set: use one of them")
	case n > quorum.MaxNodes:
		p = append(p, fmt.Sprintf("%d nodes are more than %d", n, quorum.MaxNodes))
	case n%2 == 0 && !c.AllowEven:
		p = append(p, fmt.Sprintf("%d nodes survive no more failures than %d: use an odd number, or set AllowEven", n, n-1))
	}
	for i, nd := range c.Nodes {
		if nd == nil || reflect.ValueOf(nd).Kind() == reflect.Pointer && reflect.ValueOf(nd).IsNil() {
			p = append(p, fmt.Sprintf("node %d is nil", i+1))
		}
	}
	return p
}

// duplicateProblems lists nodes that stand in the set twice.
func duplicateProblems(nodes []node.Node) []string {
	var p []string
	seen := make(map[string]bool, len(nodes))
	for _, nd := range nodes {
		if seen[nd.Name()] {
			p = append(p, fmt.Sprintf("node %s is listed twice: each must be a server of its own", nd.Name()))
		}
		seen[nd.Name()] = true
	}
	return p
}
