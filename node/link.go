package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/respguard"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// link is the one connection of a [redisNode], with the facts about the previous one. One call at a time uses
// it; the dialler shares the atomics.
type link struct {
	client rueidis.Client
	// began is when the exchange under way, or the last one, began. fresh says that the client was made for
	// it.
	began time.Time
	fresh bool
	// panicked is set if rueidis has panicked.
	panicked bool
	// unsound is set once a look has found that the connection cannot be used. A second look may miss
	// that: it comes too soon, or the first has read what there was.
	unsound bool
	workspace
	// spare are workspaces for exchanges that overlap with another one.
	spare []*workspace
	// users is how many exchanges are under way, and sharers how many of them use this client. overlapped is set
	// once there were two: from then on, goroutines of rueidis write and read, and only contexts bound a call.
	users, sharers int
	overlapped     bool
	// escape closes the connection if the exchange that began alone takes too long: see bound.
	escape *time.Timer
	// samples counts the exchanges on this connection, with its greeting, and shortest is the shortest of them.
	// roundTrip is that too, once there are enough samples, and 0 before.
	samples   int
	shortest  time.Duration
	roundTrip atomic.Int64
	// timeout is ConnWriteTimeout.
	timeout time.Duration
	// conn is the client's connection, as the dialler returned it. With a Sentinel it is the last one that
	// was dialled, to the master.
	conn atomic.Pointer[net.Conn]
	// dialledRoute is how conn was made, greetedRoute how the last connection was made that had a handshake.
	// With a Sentinel, dialledRoute may lead to the Sentinel.
	dialledRoute, greetedRoute atomic.Pointer[route]
	// unnamed is set if the server refuses to name connections.
	unnamed bool
	// sentinels is the Resolver in the dialer of connections to Sentinels, and in no other.
	sentinels *net.Resolver
	// owner finds the server of a slot of a cluster. It is nil for other nodes.
	owner *slotOwner
	// connID identifies the connection to the server.
	connID connID
	server atomic.Pointer[serverID]
	// earlier are identities that this address had before the present one. Only the last few matter. served is when the
	// server with the present one answered last.
	earlier []string
	served  time.Time
	// eviction is why the server may evict locks: see Weak. evictions decides when to look again.
	eviction  atomic.Pointer[string]
	evictions evictionWatch
	// unseen is why the server cannot tell that it has lost its memory: see Unseen. allowUnseen accepts that.
	unseen      atomic.Pointer[string]
	allowUnseen bool
	// brokenConn is a broken connection. The server may still have its last commands in a buffer, and run
	// them after a reconnect.
	brokenConn connID
	// use is the present use of the link.
	use atomic.Int32
	// redialled is set once rueidis dials by itself: the client then no longer uses the connection of the
	// handshake.
	redialled atomic.Bool
}

// workspace has the memory of one exchange. When the client is given up, so is the writer's memory: rueidis
// may still be about to send from it.
type workspace struct {
	spans    []opRange
	commands rueidis.Commands
	writer   writer
	// single has the result of an exchange with one command.
	single [1]rueidis.RedisResult
}

// The uses of a link. idle must be zero.
const (
	idle int32 = iota
	opening
	using
)

// errMoved ends a call during which rueidis would have replaced the connection.
var errMoved = errors.New("the connection was lost")

// serverID is the identity of a server, and its run_id: the identity may change while the process lives.
type serverID struct{ identity, process string }

// connID is a connection as the server knows it. It needs id and address: after a restart or on another
// server the same id may belong to another client.
type connID struct{ id, addr string }

// open connects if necessary, with a handshake before anything else is sent. The link is in use from then on,
// until release.
func (l *link) open(ctx context.Context, opt *rueidis.ClientOption) error {
	l.use.Store(using)
	l.fresh = !l.connected()
	if !l.fresh {
		return nil
	}
	l.drop(ctx)
	if l.owner != nil {
		return l.find(ctx, opt)
	}
	return l.greet(ctx, opt)
}

// greet connects, with a handshake.
func (l *link) greet(ctx context.Context, opt *rueidis.ClientOption) error {
	l.redialled.Store(false)
	err := l.connectWithName(ctx, *opt)
	if err == nil {
		err = l.handshake(ctx)
	}
	if err != nil {
		l.drop(ctx)
		return err
	}
	l.greetedRoute.Store(l.dialledRoute.Load())
	return nil
}

// connectWithName connects, and names the connection. RESP2 can do that with CLIENT SETNAME only. A server that
// refuses this is used without a name from then on.
func (l *link) connectWithName(ctx context.Context, opt rueidis.ClientOption) error {
	if l.unnamed {
		opt.ClientName = ""
	}
	l.use.Store(opening)
	err := l.connect(opt)
	l.use.Store(using)
	if err == nil || l.unnamed || !isRefused(err) || !strings.Contains(strings.ToLower(err.Error()), "client") {
		return err
	}
	l.unnamed = true
	l.drop(ctx)
	return l.connectWithName(ctx, opt)
}

// connected reports whether there is a usable connection. It checks one that has been idle. An exchange
// begins.
func (l *link) connected() bool {
	now := deadline(0)
	idle := now.Sub(l.began)
	l.began = now
	if l.client == nil || l.unsound || l.redialled.Load() {
		return false
	}
	conn := l.conn.Load()
	l.unsound = idle >= idleAfter && l.sharers == 0 && conn != nil && !sound(*conn, l.overlapped)
	return !l.unsound
}

// release ends the use of the link, unless other exchanges are under way.
func (l *link) release() {
	if l.users == 0 {
		l.use.Store(idle)
	}
}

// handshake reads the id of this connection and the identity of its server. It kills the previous connection
// on the server: no command in its buffer can then run behind the commands of this one.
//
// A server that does not let this user run CLIENT INFO or CLIENT KILL is used all the same: a command of the
// broken connection can at worst leave a lock that blocks others for a TTL. A server that cannot run them at
// the moment is not used, nor is one that denies INFO, unless that is allowed: without INFO it cannot be checked, and
// scripts notice no loss.
func (l *link) handshake(ctx context.Context) error {
	b := l.client.B()
	cmds := []rueidis.Completed{b.Arbitrary("CLIENT", "INFO").Build()}
	if g := l.brokenConn; g.id != "" {
		cmds = append(cmds, b.Arbitrary("CLIENT", "KILL", "ID", g.id, "ADDR", g.addr).Build())
	}
	optional := len(cmds)
	for _, section := range []string{"server", "replication", "memory"} {
		cmds = append(cmds, b.Arbitrary("INFO", section).Build())
	}
	informed := len(cmds)
	if l.allowUnseen {
		cmds = append(cmds, b.Arbitrary("EVAL", infoInScript, "1").Keys(wire.MarkerKey(l.writer.tag)).Build())
	}
	asked := len(cmds)
	if l.owner != nil { // a server that does not own the slot refuses the question
		cmds = append(cmds, b.Arbitrary("EXISTS").Keys(wire.MarkerKey(l.writer.tag)).Build())
	}
	began := deadline(0)
	replies := l.call(ctx, cmds...)
	l.took(deadline(0).Sub(began))
	for i, reply := range replies {
		if err := reply.Error(); err != nil && (i >= asked || i < optional && !isRefused(err)) {
			return err
		}
	}
	l.connID, l.brokenConn = connID{}, connID{}
	if info, err := replies[0].ToString(); err == nil {
		l.connID = parseEndpoint(info)
	}
	var plain, script string
	var err, scriptErr error
	for _, reply := range replies[optional:informed] {
		text, refusal := reply.ToString()
		plain, err = plain+text+"\n", cmp.Or(err, refusal)
	}
	for _, reply := range replies[informed:asked] {
		script, scriptErr = reply.ToString()
	}
	info, err := l.look(plain, err, script, scriptErr)
	if err != nil {
		return err
	}
	return l.check(ctx, info, true)
}

// check checks the INFO of the server, or its section about replication alone, and notes its identity.
func (l *link) check(ctx context.Context, info string, whole bool) error {
	identity, err := checkFitness(info, l.owner != nil, l.writer.blind)
	if err == nil && whole {
		err = l.checkMemory(memoryPolicyOf(info))
	}
	if err == nil {
		err = l.meet(ctx, identity)
	}
	if err == nil {
		process := infoField(info, "run_id")
		if !whole { // on the same connection
			_, process = l.knownServer()
		}
		l.server.Store(&serverID{identity, process})
		l.served = deadline(0)
		l.writer.place = placeOf(info)
	}
	return err
}

// maxEarlier bounds the identities that a link remembers.
const maxEarlier = 16

// distrust makes a server recover, unless it has done so since: see there.
var distrust = source("distrust")

// meet notes the identity that the server has now. If the address has led to another server since it had this identity,
// it has moved there and back: a virtual IP, a name in DNS. Then this server knows nothing of the locks that were granted
// meanwhile, and its marker is still right, as it has lost nothing. So meet makes it recover. The slot of a cluster brings
// its marker along.
func (l *link) meet(ctx context.Context, identity string) error {
	last, _ := l.knownServer()
	if l.owner != nil || last == "" || last == identity {
		return nil
	}
	if slices.Contains(l.earlier, identity) {
		elapsed := deadline(0).Sub(l.served) / 100 * 98 // clocks may run at different rates
		command := l.client.B().Arbitrary("EVAL", distrust, "1").Keys(wire.MarkerKey(l.writer.tag)).
			Args(strconv.FormatInt(elapsed.Microseconds(), 10)).Build()
		if err := l.call(ctx, command)[0].Error(); err != nil {
			return err
		}
	}
	l.earlier = append(l.earlier, last)
	l.earlier = l.earlier[max(0, len(l.earlier)-maxEarlier):]
	return nil
}

// knownServer returns what is known of the server since the last connect or later.
func (l *link) knownServer() (identity, process string) {
	if s := l.server.Load(); s != nil {
		return s.identity, s.process
	}
	return "", ""
}

// ping sends a PING. Any answer will do.
func (l *link) ping(ctx context.Context) error {
	return l.call(ctx, l.client.B().Ping().Build())[0].Error()
}

// identify asks for the server's identity again. It changes when a first replica attaches.
func (l *link) identify(ctx context.Context) error {
	replication, err := l.call(ctx, l.client.B().Arbitrary("INFO", "replication").Build())[0].ToString()
	if l.allowUnseen && err != nil && isHidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.check(ctx, replication, false)
}

// isRefused reports whether a server does not know a command, or denies it to this user. Codes such as BUSY
// and LOADING pass, so they do not count. rueidis has removed the code ERR.
func isRefused(err error) bool {
	redisErr, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	code, _, _ := strings.Cut(redisErr.Error(), " ")
	return code == "NOPERM" || code != strings.ToUpper(code)
}

// drop gives up the connection. The next handshake kills its rest on the server.
func (l *link) drop(ctx context.Context) {
	if l.client == nil {
		return
	}
	if l.panicked {
		l.discard()
		return
	}
	if l.connID.id != "" {
		l.brokenConn = l.connID
	}
	// When rueidis closes a client with a working connection, it waits for the replies, and panics on one too
	// many. So the connection is closed below it first, and a call makes rueidis notice.
	l.use.Store(using)
	if conn := l.conn.Swap(nil); conn != nil {
		_ = (*conn).Close()
		_ = l.client.Do(context.WithoutCancel(ctx), l.client.B().Ping().Build())
	}
	l.client.Close()
	l.reset()
}

// reset gives up the client, which is closed or unusable.
func (l *link) reset() {
	l.client, l.connID, l.commands, l.writer = nil, connID{}, nil, writer{tag: l.writer.tag}
	l.unsound, l.panicked = false, false
	l.sharers, l.overlapped, l.spare = 0, false, nil
	l.stopEscape()
	l.samples, l.shortest = 0, 0
	l.roundTrip.Store(0)
}

// parseEndpoint reads a line of CLIENT INFO: "id=7 addr=127.0.0.1:5000 ...". In RESP3 it is a verbatim
// string, and rueidis leaves the format "txt:" in front.
func parseEndpoint(info string) (e connID) {
	for field := range strings.FieldsSeq(strings.TrimPrefix(info, "txt:")) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "id":
			e.id = value
		case "addr":
			e.addr = value
		}
	}
	return e
}

// dialFunc is rueidis' DialCtxFn.
type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error)

// dialler wraps the dialler of the options. rueidis also connects by itself: after it noticed a broken
// connection, or when a Sentinel has moved the master. Operations on a connection without a handshake could
// not be stopped later. So a connection that is dialled between two calls makes the next call start afresh.
// During a call dialler refuses to dial.
func (l *link) dialler(opt rueidis.ClientOption) dialFunc {
	dial := opt.DialCtxFn
	switch {
	case dial != nil:
	case opt.DialFn != nil:
		dial = func(_ context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			return opt.DialFn(addr, d, cfg)
		}
	default:
		dial = dialTCP
	}
	return func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		if l.use.Load() != opening {
			l.redialled.Store(true)
			if l.use.Load() == using {
				return nil, errMoved
			}
		}
		w := &route{dial, addr, d, cfg}
		raw, conn, err := w.connect(ctx)
		if err != nil {
			return nil, err
		}
		if l.use.Load() == opening {
			l.conn.Store(&raw)
			l.dialledRoute.Store(w)
		}
		if l.sentinels != nil && d.Resolver == l.sentinels {
			conn = sentinelConn{conn}
		}
		return conn, nil
	}
}

// route is a way to a server.
type route struct {
	dial   dialFunc
	addr   string
	dialer *net.Dialer
	cfg    *tls.Config
}

// connect makes a connection, and the wrappers through which it is used. They trust nothing that the server
// sends before the answer to a PING, and check all replies: one bad server or Sentinel must not end the
// process. The guard is the outer one, since it must not count that PING.
func (w *route) connect(ctx context.Context) (raw, conn net.Conn, err error) {
	raw, err = w.dial(ctx, w.addr, w.dialer, w.cfg)
	if err != nil {
		return nil, nil, err
	}
	return raw, respguard.New(&pingConn{Conn: raw}), nil
}

// dialTCP connects as rueidis does without a dialler in its options.
func dialTCP(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	if cfg != nil {
		return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}
