package node

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// Redis is a [Node] on a server of Redis 6.2.7 or later, or of Valkey, over one connection, and another one for
// each inbox.
//
// It connects when it is first used, and again after a failure. So it can be made while the server is down.
// It uses one connection, because only within one are two commands ordered: a release must never overtake its
// acquisition. Every batch of operations is one pipelined write. Up to [moreRounds] rounds follow for what needs more keys than it
// declared. Calls of Do that overlap share the connection.
type redisNode struct {
	name string
	// given are the options as they were given, and opt as they are used.
	given, opt rueidis.ClientOption
	// tag is the hash tag of a slot of a cluster, or "".
	tag     string
	onClose func() error
	// The call that uses link holds connToken. It gives the token away while it waits for replies.
	connToken chan struct{}
	closed    chan struct{}
	link      link

	// mu guards inboxes; inboxesClosed is set when no more may be made.
	mu            sync.Mutex
	inboxes       map[*redisInbox]struct{}
	inboxesClosed bool
}

var (
	_ Node           = (*redisNode)(nil)
	_ wire.Connector = (*redisNode)(nil)
)

// New makes a node, which connects when it is first used. New fails only for options that do not describe one deployment.
func New(opt Options) (Node, error) {
	r, err := newRedis(opt)
	if err != nil {
		return nil, err // not a nil *redisNode in an interface
	}
	return r, nil
}

func newRedis(opt Options) (*redisNode, error) {
	client := opt.client()
	if err := check(&client, opt.Tag); err != nil {
		return nil, err
	}
	r := &redisNode{
		name:      nameOf(client),
		tag:       opt.Tag,
		onClose:   opt.OnClose,
		connToken: make(chan struct{}, 1),
		closed:    make(chan struct{}),
		inboxes:   make(map[*redisInbox]struct{}),
	}
	if opt.Tag != "" {
		r.name = "{" + opt.Tag + "}@" + r.name
		r.link.owner = &slotOwner{seeds: slices.Clone(client.InitAddress)}
		r.link.writer.tag = opt.Tag
	}
	r.link.allowUnseen = opt.AllowUnseenLosses
	r.link.evictions = evictionWatch{allowed: opt.AllowEviction, every: lookAgain}
	r.given = client
	r.opt = r.tune(client)
	return r, nil
}

// tune sets the options on which the promises of a Node rest, and fills in defaults.
func (r *redisNode) tune(opt rueidis.ClientOption) rueidis.ClientOption {
	sentinel := opt.Sentinel.MasterSet != ""
	opt.ForceSingleClient = !sentinel
	// One connection, also for a large batch, as long as it works.
	opt.PipelineMultiplex, opt.BlockingPipeline = -1, -1
	opt.DisableAutoPipelining = false
	opt.ConnLifetime = 0
	opt.Standalone.EnableRedirect = false
	opt.DisableRetry = true // the coordinator decides about a repetition
	opt.DisableCache = true
	// One caller at a time: the synchronous path is faster, and notices a broken connection earlier.
	opt.AlwaysPipelining, opt.OnInvalidations = false, nil
	if opt.Dialer.Timeout <= 0 {
		opt.Dialer.Timeout = wire.DefaultTimeout
	}
	if opt.ConnWriteTimeout <= 0 {
		opt.ConnWriteTimeout = wire.DefaultTimeout
	}
	if opt.Dialer.KeepAlive == 0 {
		// A negative value turns off rueidis' PINGs, but not TCP's own keep-alive. The next operation finds a
		// silent node, and idle clients stay idle.
		opt.Dialer.KeepAlive = -1
		opt.Dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true}
	}
	if sentinel {
		tuneSentinel(&opt)
		forMaster(&opt)
		r.link.sentinels = markSentinel(&opt.Sentinel.Dialer)
	}
	if opt.ClientName == "" {
		opt.ClientName = "quorumlock"
	}
	if opt.ClientSetInfo == nil {
		// CLIENT SETINFO needs a right that nothing else here needs.
		opt.ClientSetInfo = rueidis.DisableClientSetInfo
	}
	r.link.timeout = opt.ConnWriteTimeout
	opt.DialCtxFn = r.link.dialler(opt)
	return opt
}

// tuneSentinel bounds the requests to the Sentinels. Their connection is pipelined, and only rueidis' PINGs
// notice that a Sentinel does not answer.
func tuneSentinel(opt *rueidis.ClientOption) {
	opt.AlwaysRESP2 = false // RESP2 would need further connections to subscribe
	d := &opt.Sentinel.Dialer
	if d.Timeout <= 0 {
		d.Timeout = opt.Dialer.Timeout
	}
	if d.KeepAlive <= 0 {
		d.KeepAlive = rueidis.DefaultTCPKeepAlive
	}
}

// Name returns the server's address, the master set and its Sentinels, or the tag and the addresses of a cluster.
func (r *redisNode) Name() string { return r.name }

// Tag returns the hash tag that all names need, since the node is a slot of a cluster; otherwise "".
func (r *redisNode) Tag() string { return r.tag }

// ClientOption returns the options for further connections to the server, by a program of this module.
func (r *redisNode) ClientOption() rueidis.ClientOption { return r.given }

// Address returns the address of the server that the node was last connected to, or "". It changes when Sentinels or
// a cluster name another server.
func (r *redisNode) Address() string {
	if w := r.link.greetedRoute.Load(); w != nil {
		return w.addr
	}
	return ""
}

// Server returns the server's replication id and its run id, as of the last connect or of a later subscription.
func (r *redisNode) Server() (identity, process string) { return r.link.knownServer() }

// Do implements [Node]. If a connection that was used before turns out to be broken, or to lead to a server that
// no longer owns the slot, Do replaces it and sends the batch once more: see [wire.Reply.Repeated].
func (r *redisNode) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if r.tag != "" && slices.ContainsFunc(ops, func(op wire.Op) bool { return strangers(&op, r.tag) }) {
		r.doInSlot(ctx, ops, replies)
		return
	}
	if err := r.begin(ctx); err != nil {
		failAll(r.name, ops, replies, err, nil, true)
		return
	}
	defer r.end()
	if err := r.link.open(ctx, &r.opt); err != nil {
		failAll(r.name, ops, replies, reasonOf(err), err, true)
		return
	}
	began, fresh, client := r.link.began, r.link.fresh, r.link.client
	err := r.exchange(ctx, ops, replies)
	if err == nil {
		return
	}
	first := r.link.client == client
	if first {
		r.link.giveUp(ctx, err)
	}
	// Of exchanges that overlapped, the first to fail connects again. If it does not, the others fail.
	if (first || r.link.client != nil) && !fresh && mayRepeat(ctx, err) && !r.isClosed() {
		r.repeat(ctx, began, ops, replies)
	}
}

// RoundTrip implements [Node].
func (r *redisNode) RoundTrip() time.Duration { return time.Duration(r.link.roundTrip.Load()) }

// mayRepeat reports whether to connect and ask again after an error on a connection that was used before: if it
// broke, or leads to a server that no longer owns the slot. The server or a middlebox may have closed it while it
// was idle, which says nothing about a new one. A new connection that breaks is a failure of the node.
func mayRepeat(ctx context.Context, err error) bool { return leadsElsewhere(err) && ctx.Err() == nil }

// leadsElsewhere reports whether a new connection may have more success after an error.
func leadsElsewhere(err error) bool { return severed(err) || isMoved(err) }

// repeat sends the operations again that may have run or not. Operations on one name keep their order: behind one that has no
// answer, none has, unless it shares no name with it. All are idempotent, and the handshake kills the
// broken connection first, so the first run cannot come after the second. A batch whose context has ended
// stays unanswered, since its caller no longer waits.
func (r *redisNode) repeat(ctx context.Context, began time.Time, all []wire.Op, answers []wire.Reply) {
	var ops []wire.Op
	var replies []wire.Reply
	var at []int
	for i, a := range answers {
		if a.Err != nil && leadsElsewhere(a.Err) {
			ops, replies, at = append(ops, all[i]), append(replies, a), append(at, i)
		}
	}
	defer func() {
		for i, reply := range replies {
			answers[at[i]] = reply
		}
	}()
	if err := r.link.open(ctx, &r.opt); err != nil {
		failAll(r.name, ops, replies, reasonOf(err), err, false)
		return
	}
	if deadline(0).Sub(began) > r.opt.ConnWriteTimeout {
		return
	}
	client := r.link.client
	if err := r.exchange(ctx, ops, replies); err != nil && r.link.client == client {
		r.link.giveUp(ctx, err)
	}
	for i := range replies {
		replies[i].Repeated = true
	}
}

// exchange sends the operations in one pipelined write and reads the replies. It returns an error if the
// connection cannot be used any more.
func (r *redisNode) exchange(ctx context.Context, ops []wire.Op, replies []wire.Reply) error {
	client, began, w := r.link.client, r.link.began, r.link.borrow()
	w.spans = spans(w.spans[:0], ops)
	r.round(ctx, w, w.spans, ops, replies)
	for n, again := 0, unfinished(w.spans, ops, replies); again != nil && n < moreRounds; n, again = n+1, unfinished(again, ops, replies) {
		switch {
		case r.link.client != client, slices.ContainsFunc(replies, losesConnection): // another exchange has given it up, or this one will
			failRanges(again, replies, errMoved)
		case deadline(0).Sub(began) > r.opt.ConnWriteTimeout:
			failRanges(again, replies, context.DeadlineExceeded)
		default:
			r.round(ctx, w, again, ops, replies)
		}
	}
	var broken error
	for i := range replies {
		err := replies[i].Err
		if err == nil {
			continue
		}
		reason := reasonOf(err)
		replies[i].Err = newError(r.name, ops[i].Kind, reason, explained(err))
		if endsConnection(reason, err) {
			broken = err
		}
	}
	if broken == nil && r.link.client == client {
		r.link.giveBack(w)
	}
	return broken
}

// round runs one command for each range of the operations.
//
// If the server does not have a script, round sends that script in full, and all commands after it in the
// batch once more. All commands are idempotent. Otherwise a release whose script the server knew would run
// before a renewal whose script it did not know.
func (r *redisNode) round(ctx context.Context, w *workspace, spans []opRange, ops []wire.Op, replies []wire.Reply) {
	client := r.link.client
	results := r.send(ctx, w, spans, ops, evalsha)
	for i, s := range spans {
		w.writer.decodeAll(ops[s.from:s.to], results[i], replies[s.from:s.to])
	}
	if unknown := firstUnknownScript(results); unknown >= 0 && r.link.client == client {
		again := spans[unknown:]
		for i, result := range r.send(ctx, w, again, ops, eval) {
			part, answers := ops[again[i].from:again[i].to], replies[again[i].from:again[i].to]
			before := slices.Clone(answers)
			w.writer.decodeAll(part, result, answers)
			for j := range answers {
				answers[j] = settled(&part[j], before[j], answers[j])
			}
		}
	}
}

// settled returns which of two replies to an operation counts. The first run may have released or
// healed the names, taken the token, or opened the node; the second reply cannot show that, nor could a third.
func settled(op *wire.Op, first, second wire.Reply) wire.Reply {
	switch was, is := first.Outcome, second.Outcome; {
	case first.Err == nil && runsAgain(second.Err),
		second.Err == errQueues && !isUnknownScript(first.Err), //nolint:errorlint // never wrapped
		was == wire.Released && is == wire.Absent,
		was == wire.Healed && is == wire.Granted,
		was == wire.Granted && is == wire.Granted,
		was == wire.Granted && is == wire.Denied && op.Kind == wire.Open:
		return first
	default:
		return second
	}
}

// send runs one command for each range of operations. Other calls may use the link while it waits for the replies.
func (r *redisNode) send(ctx context.Context, w *workspace, spans []opRange, ops []wire.Op, build func(rueidis.Builder, *writer, []wire.Op) rueidis.Completed) []rueidis.RedisResult {
	l := &r.link
	client, began := l.client, l.began
	w.writer.packer.clear()
	w.commands = w.commands[:0]
	for _, s := range spans {
		w.writer.whole = s.whole
		w.commands = append(w.commands, build(client.B(), &w.writer, ops[s.from:s.to]))
	}
	n := len(w.commands)
	w.commands = l.watch(w.commands)
	commands := w.commands // a call that gives up the client resets w
	ctx, cancel := l.bound(ctx)
	defer cancel()
	alone := !l.overlapped
	l.users++
	l.sharers++
	<-r.connToken
	results, panicked := run(ctx, client, commands, w.single[:0])
	r.connToken <- struct{}{}
	l.users--
	if l.client == client {
		l.sharers--
		if alone {
			l.stopEscape()
		}
		l.panicked = l.panicked || panicked
		l.served = deadline(0)
		l.took(l.served.Sub(began))
		if len(results) > n {
			l.watched(results[n])
		}
	}
	return results[:n]
}

// borrow returns a workspace that no other exchange uses.
func (l *link) borrow() *workspace {
	if l.users == 0 {
		return &l.workspace
	}
	if n := len(l.spare); n > 0 {
		w := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return w
	}
	of := &l.writer // its scripts are shared, as commands are made by one call at a time
	return &workspace{writer: writer{tag: of.tag, place: of.place, blind: of.blind, forms: of.forms, blindScripts: of.blindScripts, queued: of.queued}}
}

// giveBack takes a workspace back, once rueidis does not use its memory any more.
func (l *link) giveBack(w *workspace) {
	if w != &l.workspace {
		l.spare = append(l.spare, w)
	}
}

// firstUnknownScript returns the index of the first NOSCRIPT reply, or -1.
func firstUnknownScript(results []rueidis.RedisResult) int {
	for i, result := range results {
		if isUnknownScript(result.Error()) {
			return i
		}
	}
	return -1
}

func isUnknownScript(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}

// Connected implements [wire.Connector]. It checks a connection that has been idle, if the system and the dialler
// allow that. A connection in use counts as sound.
func (r *redisNode) Connected() bool {
	select {
	case r.connToken <- struct{}{}:
	default:
		return true
	}
	defer func() { <-r.connToken }()
	return r.isClosed() || r.link.connected()
}

// Probe implements [Node]. A handshake counts as an answer.
func (r *redisNode) Probe(ctx context.Context) error {
	return r.ask(ctx, func(l *link, ctx context.Context) error {
		if l.fresh {
			return nil
		}
		return l.ping(ctx)
	})
}

// ask asks a question on the connection. Without an answer the connection is given up; if it was broken, it
// is replaced once.
func (r *redisNode) ask(ctx context.Context, question func(*link, context.Context) error) error {
	if err := r.begin(ctx); err != nil {
		return &Error{Node: r.name, Reason: err}
	}
	defer r.end()
	for {
		if err := r.link.open(ctx, &r.opt); err != nil {
			return newError(r.name, 0, reasonOf(err), err)
		}
		err := question(&r.link, ctx)
		if err == nil {
			r.link.served = deadline(0)
			return nil
		}
		r.link.giveUp(ctx, err)
		if r.link.fresh || !mayRepeat(ctx, err) {
			return newError(r.name, 0, reasonOf(err), err)
		}
	}
}

// Close implements [Node], and closes all inboxes. Exchanges that wait for their replies fail. Close waits for a connect
// or a probe under way, which the options' timeouts bound.
func (r *redisNode) Close() error {
	r.closeInboxes()
	r.connToken <- struct{}{}
	defer r.end()
	if r.isClosed() {
		return nil
	}
	close(r.closed)
	r.link.close(r.opt)
	if r.onClose != nil {
		return r.onClose()
	}
	return nil
}

func (r *redisNode) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// begin takes connToken, so that this call can use the connection.
func (r *redisNode) begin(ctx context.Context) error {
	select {
	case r.connToken <- struct{}{}:
	case <-ctx.Done():
		return ErrCanceled
	}
	if r.isClosed() {
		r.end()
		return ErrClosed
	}
	if ctx.Err() != nil {
		r.end()
		return ErrCanceled
	}
	return nil
}

func (r *redisNode) end() {
	r.link.release()
	<-r.connToken
}
