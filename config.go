package quorumlock

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// The defaults of a [Config], and limits that have no setting.
const (
	// DefaultTTL is the default of TTL and MaxTTL. It is short because it bounds how long a dead
	// holder blocks others.
	DefaultTTL = 10 * time.Second
	// defaultMaxClockSkew is the default of MaxClockSkew.
	defaultMaxClockSkew = time.Second
	// minTTL is the smallest TTL. A smaller one would be used up by drift and scheduling.
	minTTL = 10 * time.Millisecond
	// maxNameLength is the longest name of a lock, in bytes.
	maxNameLength = 512
	// MaxNames is the most names that one MultiLock can take.
	MaxNames = 128
	// maxMaxTTL keeps sums of times far from overflow.
	maxMaxTTL = 365 * 24 * time.Hour
)

// Config describes a client. The zero value of each field means its default. New checks all fields
// at once and reports every problem.
type Config struct {
	// Nodes are the independent deployments, an odd number of them. The caller closes them.
	Nodes []node.Node
	// Addresses are an alternative to Nodes: Redis servers, as host:port, redis://, rediss:// or
	// unix://, or with a tag, for a slot of a Redis Cluster (see
	// node.ParseOptions). The client owns these nodes.
	Addresses []string
	// AllowEven permits an even number of nodes. It is off by default: four nodes survive the loss
	// of one, as three do, and are more likely to lose one.
	AllowEven bool
	// AllowEviction accepts servers that may evict locks: those with a maxmemory, and a
	// maxmemory-policy other than noeviction. Without it, the client refuses them. An evicted lock is
	// granted to another owner while the first one still relies on it, so set it only for locks that
	// save work. The client logs a warning for each such node. It applies to Addresses; Nodes have it
	// in their node.Options.
	AllowEviction bool
	// AllowUnseenLosses accepts servers that cannot tell that they have restarted or failed over with
	// data from before. It is for locks that save work, and otherwise like AllowEviction: see
	// node.Options.
	AllowUnseenLosses bool

	// TTL is how long nodes keep a lock without renewal. It can be set per lock. Fractions of a
	// millisecond are dropped. Default: min(DefaultTTL, MaxTTL).
	TTL time.Duration
	// MaxTTL bounds every TTL. Default: DefaultTTL.
	MaxTTL time.Duration
	// MaxClockSkew is how far the clock of a client may be ahead of a node's. A node grants nothing
	// new to a client that is further ahead, or behind by MaxTTL. Exclusion depends on it only behind
	// Sentinel and on a slot of a Redis Cluster: see docs/servers.md. It is at most
	// MaxTTL/2. Default: min(1s, MaxTTL/2).
	MaxClockSkew time.Duration
	// Recovery is for how long a node that has lost its memory gives this client no new locks. In every client it must be at
	// least the largest MaxTTL plus the largest MaxClockSkew of all clients with the same Prefix, so leave it out if all
	// have the same. Nodes refuse a client for which that is not so: see node.SettingsError. Set it first to change these
	// limits under running programs: see docs/on-call.md. Default: MaxTTL+MaxClockSkew.
	Recovery time.Duration
	// MaxHold ends every lease that lasts longer, even if its renewals succeed. It can be set per
	// lock. Default: no limit.
	MaxHold time.Duration

	// NodeTimeoutMin and NodeTimeoutMax bound how long one operation waits for one node. Within the
	// bounds, the timeout follows the node's observed latency. NodeTimeoutMax defaults to
	// min(500ms, max(100ms, TTL/10)), NodeTimeoutMin to NodeTimeoutMax/2: on a busy machine a
	// healthy node can be that slow. An operation may take three round trips, and takes one as a rule.
	//
	// The operations of one lock wait for TTL/3 at most, in whole milliseconds. So a lock with a
	// short TTL needs no other setting. A timeout that is set is never shortened: a TTL below three
	// times such a timeout is invalid.
	NodeTimeoutMin, NodeTimeoutMax time.Duration
	// ConnectTimeout bounds how long an operation waits for a node that it must first connect to.
	// That is the first operation, or one after an idle connection was closed. Connecting takes
	// three round trips, four or five with TLS, and does not shorten any TTL. A node that takes
	// longer counts as one that does not answer. Connecting goes on, and a later operation finds
	// the connection. An address can have its own dial_timeout. Default: max(1s, 4*NodeTimeoutMax).
	ConnectTimeout time.Duration
	// RetryMin and RetryMax bound the backoff between two attempts when nodes cannot notify a
	// waiter: with Spin, or while too few nodes answer. The backoff grows from RetryMin to
	// RetryMax, and jitter takes off up to half of it. The upper bound is at least eight times the
	// latency of the nodes, so that contenders do not block each other. Defaults: 10 ms and 200 ms.
	RetryMin, RetryMax time.Duration

	// Holder identifies this client to people, in the ids of its leases. It must be printable,
	// without spaces, at most 64 bytes. See [ParseOwner]. Default: host/pid. "-"
	// leaves it out.
	Holder string

	// Prefix is put before every name on the nodes: of locks, semaphores, latches and elections. So
	// applications with different prefixes share nodes without a collision, if no prefix is the
	// beginning of another one: end it with a colon, as in "billing:". The program itself does not
	// see the prefix: methods, errors, hooks and log lines have the names without it. All clients
	// that share locks need the same prefix, and Redisson's need names with it. Prefix and name
	// together have at most 512 bytes. Prefix must be printable, without spaces, at most
	// 128 bytes. It can have one hash tag, as in "{billing}:". If a node is a slot of a
	// Redis Cluster, the client puts its hash tag and a colon before Prefix, unless Prefix has that
	// tag. Default: none.
	Prefix string

	// Handover bounds how a lease passes among the waiters of this client. It can be turned off per
	// lock.
	Handover Handover

	// Redisson is for fleets in which Java services lock the same names on the same nodes through
	// Redisson. The client then announces releases on Redisson's channel too, and its waiters
	// listen there. So waiters of both libraries wake at once. Redisson wakes all of its waiters,
	// and a client that waits hears of each lock that is released, so each release costs a message
	// to each of them. Set it alike in all clients. Without it, both libraries still exclude each
	// other, but learn of releases later.
	Redisson bool

	// Clock is the source of time. Default: clock.System().
	Clock clock.Clock
	// Jitter returns random numbers in [0, 1). They spread work that many clients would otherwise
	// do at the same instant. A simulation sets it, to make runs repeatable. It must be safe for
	// concurrent use. Default: rand.Float64 of math/rand/v2.
	Jitter func() float64
	// Logger gets a warning when a lease is lost, leaks, or reaches its MaxHold. It also gets one when
	// a node goes down, loses its memory, refuses this client, may evict locks, is listed at two
	// addresses, or does not let waiters follow Redisson's releases. It gets a line at level Info when
	// a node is in use again, has recovered, or serves this client again. It gets a warning when
	// another program has set a semaphore to another number of permits than this one was configured
	// with. Default: slog.Default().
	Logger *slog.Logger
	// Hooks are called for events. Default: none.
	Hooks Hooks

	// timeoutMinSet and timeoutMaxSet are set for timeouts that are not defaults.
	timeoutMinSet, timeoutMaxSet bool
}

// LockOptions are the settings of one lock. A field that is zero changes nothing: without any With, the
// TTL and MaxHold are those of the client's Config.
type LockOptions struct {
	// TTL is how long nodes keep the lock without renewal. Fractions of a millisecond are dropped.
	TTL time.Duration
	// MinHold keeps the lock on the nodes for this time after the client asked for it, even if it is released
	// earlier, or its holder dies: see [Lease.Release]. So a short job runs once, although several machines start it at
	// times that differ by less than MinHold. It is at most MaxTTL less drift, which is 1% and 2 ms.
	// For a Fixed lock it is at most the TTL less drift, and it never exceeds MaxHold. Such a lease is
	// not handed over. Default: none.
	MinHold time.Duration
	// MaxHold ends a lease that lasts longer.
	MaxHold time.Duration
	// MaxOutage bounds how long Acquire goes on trying while too few nodes answer, apart from how long it waits for a
	// holder. It counts from the first of the attempts in a row that failed so, and from the call at the earliest. Acquire
	// then returns the last attempt's [*NoQuorumError]. Negative: it returns the first one. Default: as long as ctx allows.
	MaxOutage time.Duration
	// Fixed turns renewal off. The lease ends TTL after its grant, less an allowance for drift,
	// unless Extend is called.
	Fixed bool
	// Spin makes Acquire poll the lock at growing, jittered intervals between Config.RetryMin and RetryMax. Nodes keep no
	// queue and wake no waiter. It is for very many locks that are held for a very short time. Without it, Acquire queues on
	// each node, in the order of arrival, and a release wakes one waiter at a time. Within a client, the lock may pass from
	// one waiter to the next without the network; see [Handover]. So the order across clients is the order of their turns,
	// not of single waiters; with NoHandover, each turn is a single lease.
	Spin bool
	// NoHandover excludes this lock from hand-overs within the client: its leases are not handed
	// over, and its waiters get none.
	NoHandover bool
	// Purpose describes the use of the lock, for people. It must be printable, at most
	// MaxPurposeLength bytes. It is part of the lease's id on the nodes: see [ParseOwner]. So the
	// client hands a lease over only to waiters with the same Purpose.
	Purpose string
	// Rule says how many nodes must agree. Default: a majority for RedLock, all for MultiLock.
	Rule quorum.Rule
}

// withDefaults fills in the defaults. It keeps invalid values, which problems reports.
func (c Config) withDefaults() Config {
	c.MaxTTL = cmp.Or(c.MaxTTL, DefaultTTL)
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, min(defaultMaxClockSkew, (c.MaxTTL/2).Truncate(time.Millisecond)))
	c.TTL = wholeTTL(cmp.Or(c.TTL, min(DefaultTTL, c.MaxTTL)))
	c.timeoutMinSet, c.timeoutMaxSet = c.NodeTimeoutMin != 0, c.NodeTimeoutMax != 0
	c.NodeTimeoutMax = cmp.Or(c.NodeTimeoutMax, min(500*time.Millisecond, max(c.TTL/10, 100*time.Millisecond)))
	c.NodeTimeoutMin = cmp.Or(c.NodeTimeoutMin, c.NodeTimeoutMax/2)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, max(4*c.NodeTimeoutMax, time.Second))
	c.RetryMax = cmp.Or(c.RetryMax, max(200*time.Millisecond, c.RetryMin))
	c.RetryMin = cmp.Or(c.RetryMin, min(10*time.Millisecond, c.RetryMax))
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

// wholeTTL drops the fraction of a millisecond, which nodes do not keep. It keeps a TTL below
// minTTL as it was set, so that the error can name it.
func wholeTTL(ttl time.Duration) time.Duration {
	if ttl < minTTL {
		return ttl
	}
	return ttl.Truncate(time.Millisecond)
}

// Limits returns the settings on which clients of the same nodes rely each for the others, with defaults filled
// in.
func (c Config) Limits() node.Limits { return c.withDefaults().limits() }

func (c Config) limits() wire.Limits {
	return wire.Limits{MaxTTL: c.MaxTTL, MaxClockSkew: c.MaxClockSkew, Longer: c.Recovery}
}

// problems lists everything that is invalid in a Config whose defaults are filled in.
func (c Config) problems() []string {
	var p []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			p = append(p, fmt.Sprintf(format, args...))
		}
	}
	p = append(p, c.nodeProblems()...)
	add(c.MaxTTL < minTTL, "MaxTTL %v is under %v", c.MaxTTL, minTTL)
	add(c.MaxTTL > maxMaxTTL, "MaxTTL %v is over %v", c.MaxTTL, maxMaxTTL)
	add(c.MaxTTL%time.Millisecond != 0, "MaxTTL %v is not a whole number of milliseconds", c.MaxTTL)
	add(c.MaxClockSkew < 0, "MaxClockSkew %v is negative", c.MaxClockSkew)
	add(c.MaxClockSkew > c.MaxTTL/2, "MaxClockSkew %v is over half of MaxTTL %v", c.MaxClockSkew, c.MaxTTL)
	add(c.MaxClockSkew%time.Millisecond != 0, "MaxClockSkew %v is not a whole number of milliseconds", c.MaxClockSkew)
	if least := c.MaxTTL + c.MaxClockSkew; c.Recovery != 0 {
		add(c.Recovery < least, "Recovery %v is under MaxTTL %v plus MaxClockSkew %v", c.Recovery, c.MaxTTL, c.MaxClockSkew)
		add(c.Recovery > 2*maxMaxTTL, "Recovery %v is over %v", c.Recovery, 2*maxMaxTTL)
		add(c.Recovery%time.Millisecond != 0, "Recovery %v is not a whole number of milliseconds", c.Recovery)
	}
	add(c.NodeTimeoutMin < 0, "NodeTimeoutMin %v is negative", c.NodeTimeoutMin)
	add(c.NodeTimeoutMax < 0, "NodeTimeoutMax %v is negative", c.NodeTimeoutMax)
	add(c.NodeTimeoutMin > c.NodeTimeoutMax, "NodeTimeoutMin %v is over NodeTimeoutMax %v", c.NodeTimeoutMin, c.NodeTimeoutMax)
	add(c.ConnectTimeout < 0, "ConnectTimeout %v is negative", c.ConnectTimeout)
	add(c.ConnectTimeout > maxMaxTTL, "ConnectTimeout %v is over %v", c.ConnectTimeout, maxMaxTTL)
	add(c.RetryMin < 0, "RetryMin %v is negative", c.RetryMin)
	add(c.RetryMax < 0, "RetryMax %v is negative", c.RetryMax)
	add(c.RetryMin > c.RetryMax, "RetryMin %v is over RetryMax %v", c.RetryMin, c.RetryMax)
	add(c.MaxHold < 0, "MaxHold %v is negative", c.MaxHold)
	add(c.Handover.MaxCount < 0, "Handover.MaxCount %d is negative", c.Handover.MaxCount)
	add(c.Handover.MaxTime < 0, "Handover.MaxTime %v is negative", c.Handover.MaxTime)
	if problem := checkLabel("Holder", c.Holder, maxHolderLength, false); problem != "" {
		p = append(p, problem)
	}
	p = append(p, prefixProblems(c.Prefix)...)
	return append(p, c.ttlProblems(c.TTL)...)
}

func (c Config) ttlProblems(ttl time.Duration) []string {
	switch {
	case ttl <= 0:
		return []string{fmt.Sprintf("TTL %v is not positive", ttl)}
	case ttl < minTTL:
		return []string{fmt.Sprintf("TTL %v is under %v", ttl, minTTL)}
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

// minHoldProblems lists the problems of a lock's MinHold under this Config. The acquisition must be
// able to make the nodes keep the lock for all of it.
func (c Config) minHoldProblems(s *lease.Spec) []string {
	longest := func(ttl time.Duration) time.Duration { return ttl - decision.Drift(ttl) }
	switch {
	case s.MinHold < 0:
		return []string{fmt.Sprintf("MinHold %v is negative", s.MinHold)}
	case s.MinHold > longest(c.MaxTTL):
		return []string{fmt.Sprintf("MinHold %v is over %v, which is MaxTTL %v less drift (raise MaxTTL in all clients of these nodes alike)", s.MinHold, longest(c.MaxTTL), c.MaxTTL)}
	case s.Fixed && s.MinHold > longest(s.TTL):
		return []string{fmt.Sprintf("MinHold %v is over %v, after which a Fixed lease with TTL %v ends", s.MinHold, longest(s.TTL), s.TTL)}
	case s.MaxHold > 0 && s.MinHold > s.MaxHold:
		return []string{fmt.Sprintf("MinHold %v is over MaxHold %v", s.MinHold, s.MaxHold)}
	default:
		return nil
	}
}

func tooSmall(ttl time.Duration, field string, timeout time.Duration) string {
	return fmt.Sprintf("TTL %v is too small for %s %v, which is set: the TTL must be three times that, to leave time for a second try; without that setting, the lock waits for a third of its TTL", ttl, field, timeout)
}

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
	if len(c.Nodes) > 0 && (c.AllowEviction || c.AllowUnseenLosses) {
		p = append(p, "AllowEviction and AllowUnseenLosses apply to Addresses: set them in the node.Options of each of the Nodes")
	}
	for i, nd := range c.Nodes {
		if nd == nil || reflect.ValueOf(nd).Kind() == reflect.Pointer && reflect.ValueOf(nd).IsNil() {
			p = append(p, fmt.Sprintf("node %d is nil", i+1))
		}
	}
	return p
}

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

// Handover bounds how a lease passes from one waiter of a client to the next. A hand-over takes no
// message to any node, so it is far faster than a release and an acquisition. While hand-overs go
// on, no other client has its turn. The next holder gets a lease of its own with a larger token;
// the former lease has ended.
//
// Only locks that renew themselves are handed over, and not with a MinHold. Leases of
// readers, of permits and of TryAcquire are not handed over.
type Handover struct {
	// Off turns hand-overs off.
	Off bool
	// MaxCount is how often in a row a lease is handed over. Default: 256.
	MaxCount int
	// MaxTime is how long after the nodes' grant a lease may still be handed over. Default:
	// 100 ms.
	MaxTime time.Duration
}

func (h Handover) withDefaults() Handover {
	if h.MaxCount == 0 {
		h.MaxCount = 256
	}
	h.MaxTime = cmp.Or(h.MaxTime, 100*time.Millisecond)
	return h
}
