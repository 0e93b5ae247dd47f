package node

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/respguard"
)

// link is the one connection of a [Redis], and what is known of the one before it. It is
// used by one call at a time; the atomics are shared with the dialler.
type link struct {
	client rueidis.Client
	// began is when the exchange under way, or the last, began; fresh says that the client was
	// made for it.
	began time.Time
	fresh bool
	// spans, commands and writer are those of the exchange under way. With the client, the writer's
	// memory is given up: what could not be sent may still be about to be.
	spans    []opRange
	commands rueidis.Commands
	writer   writer
	// conn is the connection of the client, as the dialler returned it. With a Sentinel it is the last
	// one, to the master.
	conn atomic.Pointer[net.Conn]
	// dialledRoute is how it was made, and way how the last one was that was greeted: with a
	// Sentinel, the former may lead there.
	dialledRoute, greetedRoute atomic.Pointer[route]
	// connID is the connection as the server knows it, identity the server on it.
	connID   connID
	identity atomic.Pointer[string]
	// brokenConn is a broken connection whose last commands the server may still have in
	// its buffers, and may run after a reconnect.
	brokenConn connID
	// use is what the link does now.
	use atomic.Int32
	// redialled is set once rueidis dials by itself: the client no longer stands for the
	// connection that was greeted.
	redialled atomic.Bool
}

// The phases of a link. An idle one must be zero.
const (
	idle int32 = iota
	opening
	using
)

// errMoved ends a call during which the connection would have been replaced.
var errMoved = errors.New("the connection was lost")

// connID is a connection as the server knows it: id and address together, as the id
// alone may mean somebody else after a restart or on another server.
type connID struct{ id, addr string }

// open connects if need be, and greets the server before anything else is sent. The link
// is in use from here on, until rest.
func (l *link) open(ctx context.Context, opt rueidis.ClientOption) error {
	l.use.Store(using)
	l.fresh = !l.connected()
	if !l.fresh {
		return nil
	}
	l.drop(ctx)
	l.redialled.Store(false)
	l.use.Store(opening)
	err := l.connect(opt)
	l.use.Store(using)
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

// connected reports whether there is a connection that can be used: one that has been idle is
// looked at. An exchange begins.
func (l *link) connected() bool {
	now := deadline(0)
	idle := now.Sub(l.began)
	l.began = now
	if l.client == nil || l.redialled.Load() {
		return false
	}
	conn := l.conn.Load()
	return idle < idleAfter || conn == nil || sound(*conn)
}

// release ends the use of the link.
func (l *link) release() { l.use.Store(idle) }

// handshake learns who this connection is and what server is on it, and kills its predecessor
// on the server: nothing that it still carries can run behind what this one sends.
//
// A server that does not let this user run CLIENT INFO or CLIENT KILL is used all the
// same: what a ghost may then leave behind is a lock that blocks others for a TTL. One
// that cannot run them now is not.
func (l *link) handshake(ctx context.Context) error {
	b := l.client.B()
	cmds := []rueidis.Completed{
		b.Arbitrary("CLIENT", "INFO").Build(),
		b.Arbitrary("INFO", "replication").Build(),
		b.Arbitrary("INFO", "memory").Build(),
	}
	if g := l.brokenConn; g.id != "" {
		cmds = append(cmds, b.Arbitrary("CLIENT", "KILL", "ID", g.id, "ADDR", g.addr).Build())
	}
	replies := l.call(ctx, cmds...)
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !isRefused(err) {
			return err
		}
	}
	l.connID, l.brokenConn = connID{}, connID{}
	if info, err := replies[0].ToString(); err == nil {
		l.connID = parseEndpoint(info)
	}
	replication, err1 := replies[1].ToString()
	memory, err2 := replies[2].ToString()
	if err1 != nil || err2 != nil {
		return nil //nolint:nilerr // INFO is denied, which every script will say for itself
	}
	identity, err := checkFitness(replication, memory)
	if err == nil {
		l.identity.Store(&identity)
	}
	return err
}

// ping asks for any answer.
func (l *link) ping(ctx context.Context) error {
	return l.call(ctx, l.client.B().Ping().Build())[0].Error()
}

// identify asks again what server this is: it may have got another identity since, by a first
// replica that attached.
func (l *link) identify(ctx context.Context) error {
	replication, err := l.call(ctx, l.client.B().Arbitrary("INFO", "replication").Build())[0].ToString()
	if err != nil {
		return err
	}
	identity, err := checkFitness(replication, "")
	if err == nil {
		l.identity.Store(&identity)
	}
	return err
}

// isRefused reports whether a server does not know a command, or denies it to this user:
// not a code such as BUSY or LOADING, which passes. rueidis has taken off the code ERR.
func isRefused(err error) bool {
	redisErr, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	code, _, _ := strings.Cut(redisErr.Error(), " ")
	return code == "NOPERM" || code != strings.ToUpper(code)
}

// drop gives up the connection. What it still carries is settled by the next greeting.
func (l *link) drop(ctx context.Context) {
	if l.client == nil {
		return
	}
	if l.connID.id != "" {
		l.brokenConn = l.connID
	}
	// Closing a client whose connection is well, rueidis would wait for the answers to
	// come, and panic on one too many. So the connection is closed below it, and a call
	// has it notice.
	l.use.Store(using)
	if conn := l.conn.Swap(nil); conn != nil {
		_ = (*conn).Close()
		_ = l.client.Do(context.WithoutCancel(ctx), l.client.B().Ping().Build())
	}
	l.client.Close()
	l.reset()
}

// reset gives up the client, which is closed or of no use.
func (l *link) reset() {
	l.client, l.connID, l.commands, l.writer = nil, connID{}, nil, writer{}
}

// parseEndpoint reads a line of CLIENT INFO: "id=7 addr=127.0.0.1:5000 ...". In RESP3 it
// is a verbatim string, and rueidis leaves the format "txt:" in front.
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

// dialler is the dialler of the options, watched: rueidis makes connections by itself too,
// when it has noticed that one broke, or when a Sentinel has moved the master. Operations
// on a connection that was not greeted could not be stopped later. So what is dialled
// between two calls makes the next one start afresh, and during a call none is.
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
		return conn, nil
	}
}

// route leads to a server.
type route struct {
	dial   dialFunc
	addr   string
	dialer *net.Dialer
	cfg    *tls.Config
}

// connect makes a connection, and the wrappers through which to use it. They believe nothing of the
// server before the answer to a PING, and check all replies: one bad server, or Sentinel, must not
// end the process. The guard is outside, as it must not count that PING.
func (w *route) connect(ctx context.Context) (raw, conn net.Conn, err error) {
	raw, err = w.dial(ctx, w.addr, w.dialer, w.cfg)
	if err != nil {
		return nil, nil, err
	}
	return raw, respguard.New(&pingConn{Conn: raw}), nil
}

// dialTCP connects as rueidis does where no dialler is given.
func dialTCP(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	if cfg != nil {
		return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}
