package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// DefaultTimeout bounds connecting to a Redis node, and each exchange with it, where
// the options do not say otherwise.
const DefaultTimeout = time.Second

// Redis is a [Node] on a Redis or Valkey server, 6.2 or later, over one connection, and
// another for each inbox.
//
// It connects when it is first used, and again after a failure; a server that is down
// does not fail its construction. One connection, because order between two commands
// holds only within one (a release must never overtake its acquire); every batch of
// operations is one pipelined write on it.
type Redis struct {
	name string
	opt  rueidis.ClientOption
	// turn is held by the one call that uses the connection.
	turn   chan struct{}
	closed chan struct{}
	link   link

	// mu guards the inboxes that there are; shut is set when there may be no more.
	mu      sync.Mutex
	inboxes map[*redisInbox]struct{}
	shut    bool
}

var (
	_ Node     = (*Redis)(nil)
	_ Listener = (*Redis)(nil)
)

// OpenRedis makes a node from an address as [ParseAddress] takes it. It fails only for
// an address that does not parse.
func OpenRedis(address string) (*Redis, error) {
	opt, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return NewRedis(opt)
}

// NewRedis makes a node from rueidis' own options: user and password, TLS, database
// number, dialler, Sentinel. Dialer.Timeout bounds connecting and ConnWriteTimeout an
// exchange; both are [DefaultTimeout] if not positive, and belong well below the TTL of
// the locks. Options that would add connections, replace one by itself or repeat commands
// are overruled. It fails only for options that do not describe one deployment.
func NewRedis(opt rueidis.ClientOption) (*Redis, error) {
	switch {
	case len(opt.InitAddress) == 0:
		return nil, errors.New("node: no address")
	case len(opt.InitAddress) > 1 && opt.Sentinel.MasterSet == "":
		return nil, fmt.Errorf("node: %d addresses for one node: list independent servers as nodes of their own (Redis Cluster is not supported as a node)", len(opt.InitAddress))
	case opt.ReplicaOnly || opt.SendToReplicas != nil || len(opt.Standalone.ReplicaAddress) > 0:
		return nil, errors.New("node: a lock cannot be held on replicas")
	}
	r := &Redis{
		name:    nameOf(opt),
		turn:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
		inboxes: make(map[*redisInbox]struct{}),
	}
	r.opt = r.tune(opt)
	return r, nil
}

// tune sets what the promises of a Node rest on, and fills in what was left open.
func (r *Redis) tune(opt rueidis.ClientOption) rueidis.ClientOption {
	sentinel := opt.Sentinel.MasterSet != ""
	opt.ForceSingleClient = !sentinel
	// One connection, also for a large batch, for as long as it works.
	opt.PipelineMultiplex, opt.BlockingPipeline = -1, -1
	opt.DisableAutoPipelining = false
	opt.ConnLifetime = 0
	opt.Standalone.EnableRedirect = false
	opt.DisableRetry = true // a repeat is the coordinator's decision
	opt.DisableCache = true
	// One caller at a time: the synchronous path is faster, and notices more.
	opt.AlwaysPipelining, opt.OnInvalidations = false, nil
	if opt.Dialer.Timeout <= 0 {
		opt.Dialer.Timeout = DefaultTimeout
	}
	if opt.ConnWriteTimeout <= 0 {
		opt.ConnWriteTimeout = DefaultTimeout
	}
	if opt.Dialer.KeepAlive == 0 {
		// Negative turns off rueidis' PINGs, not TCP's own keep-alive: a silent node is
		// found by the next operation, and idle clients stay idle.
		opt.Dialer.KeepAlive = -1
		opt.Dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true}
	}
	if sentinel {
		tuneSentinel(&opt)
	}
	if opt.ClientName == "" {
		opt.ClientName = "quorumlock"
	}
	opt.DialCtxFn = r.link.dialler(opt)
	return opt
}

// tuneSentinel bounds what is asked of the Sentinels. The connection to them is a
// pipelined one, on which only rueidis' PINGs notice that nothing answers.
func tuneSentinel(opt *rueidis.ClientOption) {
	opt.AlwaysRESP2 = false // needs connections of its own to subscribe
	d := &opt.Sentinel.Dialer
	if d.Timeout <= 0 {
		d.Timeout = opt.Dialer.Timeout
	}
	if d.KeepAlive <= 0 {
		d.KeepAlive = rueidis.DefaultTCPKeepAlive
	}
}

// Name is the server's address, or the master set and its sentinels.
func (r *Redis) Name() string { return r.name }

// Identity is the server's replication id, as of the last connect, or of a subscription since.
func (r *Redis) Identity() string {
	if identity := r.link.identity.Load(); identity != nil {
		return *identity
	}
	return ""
}

// Do implements [Node].
func (r *Redis) Do(ctx context.Context, ops []Op, replies []Reply) {
	if err := r.begin(ctx); err != nil {
		fail(r.name, ops, replies, err, nil, true)
		return
	}
	defer r.end()
	if err := r.link.open(ctx, r.opt); err != nil {
		fail(r.name, ops, replies, reasonOf(err), err, true)
		return
	}
	if err := exchange(ctx, r.name, &r.link, ops, replies); err != nil {
		r.link.drop(ctx)
	}
}

// Probe implements [Node].
func (r *Redis) Probe(ctx context.Context) error { return r.ask(ctx, (*link).ping) }

// ask asks something on the connection, which is given up if it is not answered.
func (r *Redis) ask(ctx context.Context, question func(*link, context.Context) error) error {
	if err := r.begin(ctx); err != nil {
		return &Error{Node: r.name, Reason: err}
	}
	defer r.end()
	if err := r.link.open(ctx, r.opt); err != nil {
		return newError(r.name, 0, reasonOf(err), err)
	}
	if err := question(&r.link, ctx); err != nil {
		r.link.drop(ctx)
		return newError(r.name, 0, reasonOf(err), err)
	}
	return nil
}

// Close implements [Node], and closes all inboxes. It waits for the exchange that is under
// way, which is bounded by the options' timeouts.
func (r *Redis) Close() error {
	r.closeInboxes()
	r.turn <- struct{}{}
	defer r.end()
	select {
	case <-r.closed:
	default:
		close(r.closed)
		r.link.close(r.opt)
	}
	return nil
}

// begin waits for this call's turn on the connection.
func (r *Redis) begin(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ErrCanceled
	}
	select {
	case <-r.closed:
		r.end()
		return ErrClosed
	default:
	}
	if ctx.Err() != nil {
		r.end()
		return ErrCanceled
	}
	return nil
}

func (r *Redis) end() {
	r.link.rest()
	<-r.turn
}
