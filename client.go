package quorumlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/latch"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/node"
)

// Client takes locks on one set of nodes. A program needs one Client for each set. It is safe for
// concurrent use.
//
// An idle client has no goroutines, except for about ten seconds after a call to Acquire had to
// wait. A pending timer may outlive its purpose.
type Client struct {
	cfg   Config
	clock clock.Clock
	// id is the part of every owner id that no other client has. sequence makes the ids distinct
	// within the client.
	id       string
	sequence atomic.Uint64

	// renewalPhase aligns the renewals of this client's leases; see quorum.AlignToBunch.
	renewalPhase time.Duration

	nodes *dispatch.Nodes
	// ownsNodes is set if the client made the nodes, and so must close them.
	ownsNodes  bool
	scheduler  scheduler
	reporter   reporter
	tokenClock tokenClock
	queues     localQueues
	messages   messageRouter
	slotTables *slots.Pools
	latches    *latch.Latches

	mu sync.Mutex
	// pendingCalls counts the current calls. No call is added once closing is set.
	pendingCalls sync.WaitGroup
	closing      bool
	quit         chan struct{}
	closed       chan struct{}
	closeErr     error
}

// New makes a client. It checks the configuration and reports every problem at once, in an
// [*InvalidError]. It does not touch the network, so nodes may be down.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	problems := cfg.problems()
	nodes, owned := cfg.Nodes, len(cfg.Addresses) > 0
	if owned {
		var wrong []string
		nodes, wrong = openNodes(cfg)
		problems = append(problems, wrong...)
	}
	if len(problems) == 0 {
		problems = duplicateProblems(nodes)
	}
	if len(problems) > 0 {
		return nil, &InvalidError{Problems: problems}
	}
	c := &Client{
		cfg:       cfg,
		clock:     cfg.Clock,
		id:        rand.Text(),
		ownsNodes: owned,
		quit:      make(chan struct{}),
		closed:    make(chan struct{}),
	}
	c.renewalPhase = time.Duration(cfg.Jitter() * float64(cfg.MaxTTL)) // the bunches of no TTL are further apart than MaxTTL
	c.scheduler = scheduler{clock: cfg.Clock, capacity: c.renewalRoom, starved: make([]grantHeap, len(nodes)+1)}
	c.tokenClock = tokenClock{clock: cfg.Clock, maxAhead: cfg.limits().Recovery(), freshness: max(cfg.MaxClockSkew, 2*cfg.NodeTimeoutMax)}
	c.nodes = dispatch.New(nodes, dispatch.Env{
		Clock:          cfg.Clock,
		TimeoutMin:     cfg.NodeTimeoutMin,
		TimeoutMax:     cfg.NodeTimeoutMax,
		ConnectTimeout: cfg.ConnectTimeout,
		Jitter:         cfg.Jitter,
		Recovery:       cfg.limits().Recovery(),
		Events:         nodeEvents{c},
	})
	c.slotTables = slots.NewPools(len(nodes), cfg.Jitter)
	c.messages.init(c, nodes)
	c.latches = newLatches(c)
	return c, nil
}

// openNodes makes the nodes of a Config's addresses, with its timeouts.
func openNodes(cfg Config) (nodes []node.Node, problems []string) {
	for i, address := range cfg.Addresses {
		nd, err := openNode(address, cfg.NodeTimeoutMax, cfg.ConnectTimeout)
		if err != nil {
			problems = append(problems, fmt.Sprintf("address %d: %s", i+1, strings.TrimPrefix(err.Error(), "node: ")))
			continue
		}
		nodes = append(nodes, nd)
	}
	return nodes, problems
}

func openNode(address string, timeout, connect time.Duration) (node.Node, error) {
	opt, err := node.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	setTimeouts(&opt, timeout, connect)
	return node.NewRedis(opt)
}

// setTimeouts bounds exchanges and connecting with the client's timeouts, unless the address has
// its own.
func setTimeouts(opt *rueidis.ClientOption, timeout, connect time.Duration) {
	if opt.ConnWriteTimeout == 0 {
		opt.ConnWriteTimeout = timeout
	}
	if opt.Dialer.Timeout == 0 {
		opt.Dialer.Timeout = connect
	}
}

// Close ends every lease with ErrClosed and releases it, and ends every call of Acquire. It waits
// until the nodes have answered all operations, and closes the nodes that the client made. A node
// that does not answer delays Close no longer than that node's timeouts.
//
// When Close returns nil, nothing is held and no goroutine is left. If a release could not be
// delivered, the error names the nodes on which keys now expire by themselves. If ctx ends first,
// the rest goes on in the background. Later calls wait for the same end and return the same error.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if first {
		close(c.quit)
		go c.shutDown()
	}
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
		return fmt.Errorf("quorumlock: close: still waiting for nodes: %w", ctx.Err())
	}
}

// shutDown does the work of Close. The timeouts of the nodes bound each step.
func (c *Client) shutDown() {
	defer close(c.closed)
	c.pendingCalls.Wait()
	for _, g := range c.scheduler.stop() {
		g.end(ErrClosed)
	}
	c.messages.subscriptions.Close()
	var errs []error
	for i, n := range c.nodes.Close() {
		if n > 0 {
			errs = append(errs, fmt.Errorf("quorumlock: node %s did not confirm %d releases: its keys expire by themselves", c.nodes.Name(i), n))
		}
		if c.ownsNodes {
			errs = append(errs, c.nodes.Node(i).Close())
		}
	}
	c.closeErr = errors.Join(errs...)
	c.reporter.wait()
}

// beginCall registers a call that may send to the nodes, and endCall ends it. beginCall fails once
// the client is closing.
func (c *Client) beginCall() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	c.pendingCalls.Add(1)
	return nil
}

func (c *Client) endCall() { c.pendingCalls.Done() }

func (c *Client) nextSequence() string { return strconv.FormatUint(c.sequence.Add(1), 10) }

// warn queues a log line. The caller does not wait for the logger.
func (c *Client) warn(msg string, args ...any) {
	c.reporter.enqueue(func() { c.cfg.Logger.Warn(msg, args...) })
}

func (c *Client) info(msg string, args ...any) {
	c.reporter.enqueue(func() { c.cfg.Logger.Info(msg, args...) })
}
