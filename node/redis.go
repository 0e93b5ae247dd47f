package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
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
	// connToken is held by the one call that uses the connection.
	connToken chan struct{}
	closed    chan struct{}
	link      link

	// mu guards the inboxes that there are; shut is set when there may be no more.
	mu            sync.Mutex
	inboxes       map[*redisInbox]struct{}
	inboxesClosed bool
}

var (
	_ Node     = (*Redis)(nil)
	_ Listener = (*Redis)(nil)

	_ Connector = (*Redis)(nil)
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
// number, dialler, Sentinel. Dialer.Timeout bounds each step of connecting and ConnWriteTimeout an
// exchange, of which a call makes two at most; both are [DefaultTimeout] if not positive.
// ConnWriteTimeout belongs well below the TTL of the locks. Options that would add connections, replace one by itself or repeat commands
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
		name:      nameOf(opt),
		connToken: make(chan struct{}, 1),
		closed:    make(chan struct{}),
		inboxes:   make(map[*redisInbox]struct{}),
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
	if opt.ClientSetInfo == nil {
		// To say which library this is takes a right that nothing else here needs.
		opt.ClientSetInfo = rueidis.DisableClientSetInfo
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

// Do implements [Node]. A connection that was used before, and turns out to be broken, is replaced,
// and the batch is sent once more on the new one: see [Reply.Repeated].
func (r *Redis) Do(ctx context.Context, ops []Op, replies []Reply) {
	if err := r.begin(ctx); err != nil {
		failAll(r.name, ops, replies, err, nil, true)
		return
	}
	defer r.end()
	if err := r.link.open(ctx, r.opt); err != nil {
		failAll(r.name, ops, replies, reasonOf(err), err, true)
		return
	}
	err := exchange(ctx, r.name, &r.link, ops, replies)
	if err == nil {
		return
	}
	r.link.drop(ctx)
	if r.mayRepeat(ctx, err) {
		from := slices.IndexFunc(replies, func(r Reply) bool { return r.Err != nil && severed(r.Err) })
		r.repeat(ctx, ops[from:], replies[from:])
	}
}

// mayRepeat reports whether to connect and ask again after an error: where the connection was used
// before, and broke. The server or something on the way may have closed it while it was idle, which
// says nothing about the next one. A new connection that breaks is a failure of the node.
func (r *Redis) mayRepeat(ctx context.Context, err error) bool {
	return !r.link.fresh && severed(err) && ctx.Err() == nil
}

// repeat sends operations again, of which it is not known whether they ran. All are idempotent, and
// the greeting kills the broken connection first, so the first run cannot come after the second.
// A batch whose time is over stays unanswered: its caller no longer waits.
func (r *Redis) repeat(ctx context.Context, ops []Op, replies []Reply) {
	began := r.link.began
	if err := r.link.open(ctx, r.opt); err != nil {
		failAll(r.name, ops, replies, reasonOf(err), err, false)
		return
	}
	if deadline(0).Sub(began) > r.opt.ConnWriteTimeout {
		return
	}
	if err := exchange(ctx, r.name, &r.link, ops, replies); err != nil {
		r.link.drop(ctx)
	}
	for i := range replies {
		replies[i].Repeated = true
	}
}

// Connected implements [Connector]. A connection that has been idle is looked at, where the system
// and the dialler offer that. One that is in use just now counts as sound.
func (r *Redis) Connected() bool {
	select {
	case r.connToken <- struct{}{}:
	default:
		return true
	}
	defer func() { <-r.connToken }()
	select {
	case <-r.closed:
		return true
	default:
		return r.link.connected()
	}
}

// Probe implements [Node]. A server that has just been greeted has answered.
func (r *Redis) Probe(ctx context.Context) error {
	return r.ask(ctx, func(l *link, ctx context.Context) error {
		if l.fresh {
			return nil
		}
		return l.ping(ctx)
	})
}

// ask asks something on the connection, which is given up if it is not answered, and replaced once
// if it was broken.
func (r *Redis) ask(ctx context.Context, question func(*link, context.Context) error) error {
	if err := r.begin(ctx); err != nil {
		return &Error{Node: r.name, Reason: err}
	}
	defer r.end()
	for {
		if err := r.link.open(ctx, r.opt); err != nil {
			return newError(r.name, 0, reasonOf(err), err)
		}
		err := question(&r.link, ctx)
		if err == nil {
			return nil
		}
		r.link.drop(ctx)
		if !r.mayRepeat(ctx, err) {
			return newError(r.name, 0, reasonOf(err), err)
		}
	}
}

// Close implements [Node], and closes all inboxes. It waits for the exchange that is under
// way, which is bounded by the options' timeouts.
func (r *Redis) Close() error {
	r.closeInboxes()
	r.connToken <- struct{}{}
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
	case r.connToken <- struct{}{}:
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
	r.link.release()
	<-r.connToken
}
