package node

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"github.com/redis/rueidis"
)

// link is the one connection of a [Redis], and what is known of those before it. It is
// used by one call at a time.
type link struct {
	client rueidis.Client
	// greeted is the count of dials at which the server was last greeted; another
	// count means that there is a new connection below the client.
	greeted uint64
	// self is the connection as the server knows it.
	self endpoint
	// ghosts are broken connections whose last commands the server may still have in
	// its buffers, and may run after a reconnect.
	ghosts []endpoint
}

// endpoint is a connection as the server knows it: id and address together, as the id
// alone may mean somebody else after a restart or on another server.
type endpoint struct{ id, addr string }

// maxGhosts bounds the memory kept of broken connections. A server that hung through
// more reconnects than this has long closed the oldest.
const maxGhosts = 64

// open connects if need be, and greets the server on every new connection before
// anything else is sent on it.
func (l *link) open(ctx context.Context, r *Redis) error {
	if l.client == nil {
		client, err := rueidis.NewClient(r.opt)
		if err != nil {
			if client != nil {
				client.Close()
			}
			return err
		}
		l.client = client
	}
	dials := r.dials.Load()
	if l.greeted == dials {
		return nil
	}
	if err := l.greet(ctx); err != nil {
		l.drop()
		return err
	}
	l.greeted = dials
	return nil
}

// greet learns who this connection is, and kills its predecessors on the server:
// nothing that they still carry can run behind what this one sends.
//
// A server that does not let this user run CLIENT INFO or CLIENT KILL is used all the
// same: what a ghost may then leave behind is a lock that blocks others for a TTL.
func (l *link) greet(ctx context.Context) error {
	b := l.client.B()
	cmds := []rueidis.Completed{b.Arbitrary("CLIENT", "INFO").Build()}
	for _, g := range l.ghosts {
		cmds = append(cmds, b.Arbitrary("CLIENT", "KILL", "ID", g.id, "ADDR", g.addr).Build())
	}
	replies := l.client.DoMulti(unhurried(ctx), cmds...)
	for _, reply := range replies {
		if err := reply.NonRedisError(); err != nil {
			return err
		}
	}
	l.ghosts = l.ghosts[:0]
	l.self = endpoint{}
	if info, err := replies[0].ToString(); err == nil {
		l.self = parseEndpoint(info)
	}
	return nil
}

// drop gives up the connection. What it still carries is settled by the next greeting.
func (l *link) drop() {
	if l.client == nil {
		return
	}
	if l.self.id != "" && len(l.ghosts) < maxGhosts {
		l.ghosts = append(l.ghosts, l.self)
	}
	l.client.Close()
	l.client, l.self, l.greeted = nil, endpoint{}, 0
}

// parseEndpoint reads a line of CLIENT INFO: "id=7 addr=127.0.0.1:5000 ...".
func parseEndpoint(info string) (e endpoint) {
	for field := range strings.FieldsSeq(info) {
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

// countDials has every connection that is made counted, whatever dialler is used.
func (r *Redis) countDials(opt *rueidis.ClientOption) {
	dial := opt.DialCtxFn
	switch {
	case dial != nil:
	case opt.DialFn != nil:
		old := opt.DialFn
		dial = func(_ context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			return old(addr, d, cfg)
		}
	default:
		dial = dialTCP
	}
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, cfg)
		if err == nil {
			r.dials.Add(1)
		}
		return conn, err
	}
}

// dialTCP connects as rueidis does where no dialler is given.
func dialTCP(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	if cfg != nil {
		return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}
