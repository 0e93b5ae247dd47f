package quorumlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/internal/latch"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
	"github.com/quorumlock/quorumlock/internal/wait"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// Client takes locks on one set of nodes. A program needs one Client for each set. It is safe for
// concurrent use.
//
// An idle client has no goroutines, except for about ten seconds after a call had to wait for a lock
// or a latch, and two for each node that is far away, at a round trip of a millisecond or more. A
// pending timer may outlive its purpose.
type Client struct {
	cfg   Config
	clock clock.Clock
	// id is the part of every owner id that no other client has.
	id string

	nodes *dispatch.Nodes
	// ownsNodes is set if the client made the nodes, and so must close them.
	ownsNodes bool
	reporter  reporter
	engine    *lease.Engine
	queues    *wait.Queues
	slotPools *slots.Pools
	latches   *latch.Latches
	// label is the readable part of the owner ids of locks without a purpose.
	label string

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
		problems = append(problems, cfg.addTag(nodes)...)
	}
	if len(problems) > 0 {
		return nil, invalid(problems...)
	}
	c := &Client{
		cfg:       cfg,
		clock:     cfg.Clock,
		id:        rand.Text(),
		ownsNodes: owned,
		quit:      make(chan struct{}),
		closed:    make(chan struct{}),
		label:     ownerLabel(cfg.Holder, ""),
	}
	c.nodes = dispatch.New(nodes, dispatch.Env{
		Clock:          cfg.Clock,
		TimeoutMin:     cfg.NodeTimeoutMin,
		TimeoutMax:     cfg.NodeTimeoutMax,
		ConnectTimeout: cfg.ConnectTimeout,
		Jitter:         cfg.Jitter,
		Recovery:       cfg.limits().Recovery(),
		List:           dispatch.List{Key: wire.ListKey(cfg.Prefix), Holder: cfg.Holder, Terms: wire.TermsFor(cfg.limits())},
		Events:         translator{c},
	})
	c.slotPools = slots.NewPools(len(nodes), cfg.Jitter)
	c.queues, c.engine = wait.New(lease.Env{
		ID:            c.id,
		Clock:         cfg.Clock,
		Jitter:        cfg.Jitter,
		Nodes:         c.nodes,
		Limits:        cfg.limits(),
		Timeout:       cfg.NodeTimeoutMax,
		MaxHandovers:  cfg.Handover.MaxCount,
		HandoverTime:  cfg.Handover.MaxTime,
		Announce:      cfg.Redisson,
		Closing:       c.quit,
		Errors:        translator{c},
		Events:        translator{c},
		ReportVotes:   cfg.Hooks.Voted != nil,
		ReportBacking: cfg.Hooks.BackingChanged != nil,
	}, wait.Env{
		RetryMin: cfg.RetryMin,
		RetryMax: cfg.RetryMax,
		Slots:    c.slotPools,
		Events:   translator{c},
	})
	c.latches = newLatches(c)
	return c, nil
}

// openNodes makes the nodes of a Config's addresses, with its timeouts.
func openNodes(cfg Config) (nodes []node.Node, problems []string) {
	for i, address := range cfg.Addresses {
		nd, err := openNode(address, cfg)
		if err != nil {
			problems = append(problems, fmt.Sprintf("address %d: %s", i+1, strings.TrimPrefix(err.Error(), "node: ")))
			continue
		}
		nodes = append(nodes, nd)
	}
	return nodes, problems
}

func openNode(address string, cfg Config) (node.Node, error) {
	opt, err := node.ParseOptions(address)
	if err != nil {
		return nil, err
	}
	opt.AllowEviction, opt.AllowUnseenLosses = cfg.AllowEviction, cfg.AllowUnseenLosses
	// The client's timeouts bound exchanges and connecting, unless the address has its own.
	opt.Timeout = cmp.Or(opt.Timeout, cfg.NodeTimeoutMax)
	opt.ConnectTimeout = cmp.Or(opt.ConnectTimeout, cfg.ConnectTimeout)
	return node.New(opt)
}

// Close ends every lease with ErrClosed and releases it. It also ends all other calls under way with
// ErrClosed, except Release. It waits until the nodes have answered all operations and the hooks have
// run, and closes the nodes that the client made. A node that does not answer delays Close no longer
// than that node's timeouts.
//
// When Close returns nil, nothing is held, except locks that the nodes keep for the rest of their
// [LockOptions].MinHold, or of their TTL after a Detach, and no goroutine of this library is left; goroutines of rueidis, for connections that are
// closed by then, may take a moment to end. If a release could not be
// delivered, the error names the nodes on which keys now expire by themselves. If ctx ends first,
// the rest goes on in the background. Later calls wait for the same end and return the same error.
func (c *Client) Close(ctx context.Context) error {
	if ctx == nil {
		return invalid(nilContext)
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
	case <-ctx.Done():
	}
	select {
	case <-c.closed: // though ctx may have ended, too
		return c.closeErr
	default:
		return fmt.Errorf("quorumlock: close: still waiting for nodes: %w", ctx.Err())
	}
}

// shutDown does the work of Close. The timeouts of the nodes bound each step.
func (c *Client) shutDown() {
	defer close(c.closed)
	c.pendingCalls.Wait()
	c.engine.Close()
	c.queues.Close()
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

// begin checks the context of a call, and registers the call.
func (c *Client) begin(ctx context.Context) error {
	switch {
	case ctx == nil:
		return invalid(nilContext)
	case ctx.Err() != nil:
		return lease.ContextError(ctx)
	default:
		return c.beginCall()
	}
}

func (c *Client) endCall() { c.pendingCalls.Done() }

// enlist makes the nodes note this client's list of nodes before a call takes something. If one refuses the list, the
// nodes' errors say so.
func (c *Client) enlist(ctx context.Context) (done bool) {
	_, done = c.nodes.Enlist(c.clock.Now(), quorum.Majority().Need(c.nodes.Len()), ctx.Done(), c.quit)
	return done
}

// pause waits between two attempts, for longer the more there were. The end of ctx ends it, and so does Close.
func (c *Client) pause(ctx context.Context, attempts int) {
	over := make(chan struct{})
	timer := c.clock.AfterFunc(decision.Backoff(attempts, c.cfg.RetryMin, c.cfg.RetryMax, c.cfg.Jitter()), func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
	case <-ctx.Done():
	case <-c.quit:
	}
}

// warn queues a log line. The caller does not wait for the logger.
func (c *Client) warn(msg string, args ...any) {
	c.reporter.enqueue(func() { c.cfg.Logger.Warn(msg, args...) })
}

func (c *Client) info(msg string, args ...any) {
	c.reporter.enqueue(func() { c.cfg.Logger.Info(msg, args...) })
}

// Config returns a copy of the client's configuration, with the defaults filled in.
func (c *Client) Config() Config { return c.cfg }

// Connect connects to all nodes at once, which the first operation does otherwise. It returns nil
// once a majority is connected. That is enough for a RedLock, and a service can start while a
// minority of its nodes is down. Connecting to the other nodes goes on in the background. After a
// Connect, the first lock takes one round trip. Config.ConnectTimeout bounds Connect, and so does
// ctx.
//
// The error is a [*NoQuorumError] that names each node without a connection, and why. The client
// can still be used: the next operation connects too. If ctx ends first, or the client is closed
// meanwhile, the error wraps that as well. On a closed client it is ErrClosed alone.
func (c *Client) Connect(ctx context.Context) error {
	if ctx == nil {
		return invalid(nilContext)
	}
	if err := c.beginCall(); err != nil {
		return err
	}
	defer c.endCall()
	n, need := c.nodes.Len(), quorum.Majority().Need(c.nodes.Len())
	told := make(chan dispatch.Connection, n)
	errs := make([]error, n) // why each node is not connected
	for i := range n {
		errs[i] = &node.Error{Node: c.nodes.Name(i), Reason: node.ErrUnreachable, Err: dispatch.ErrConnecting}
		c.nodes.Connect(i, told)
	}
	agreed, left := 0, n // left have not answered yet
	failure := func() error {
		e := c.noQuorum("connect", need, func(i int) error { return errs[i] })
		e.Pending = left
		return e
	}
	for agreed < need {
		if left == 0 {
			return failure()
		}
		select {
		case one := <-told:
			left--
			errs[one.Node] = one.Err
			if one.Err == nil {
				agreed++
			}
		case <-ctx.Done():
			return lease.GaveUp(failure(), lease.ContextError(ctx))
		case <-c.quit:
			return lease.GaveUp(failure(), ErrClosed)
		}
	}
	c.nodes.KeepListed(c.clock.Now()) // so that the first lock need not wait for that
	return nil
}

// noQuorum returns the error for an operation on which too few nodes agreed. failure returns why node i did not, or nil.
func (c *Client) noQuorum(op Operation, need int, failure func(i int) error) *NoQuorumError {
	e := &NoQuorumError{Op: op, Need: need, Total: c.nodes.Len()}
	for i := range e.Total {
		if err := failure(i); err != nil {
			e.Nodes = append(e.Nodes, NodeError{Node: c.nodes.Name(i), Err: err})
		}
	}
	e.Agreed = e.Total - len(e.Nodes)
	return e
}
