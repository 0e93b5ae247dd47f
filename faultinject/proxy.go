package faultinject

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// Proxy forwards TCP data between clients and a server, and breaks it: late, cut, closed, reset, in either direction,
// in the middle of a message; see [Proxy.Detain] for data that arrives behind newer data. It does not interpret the data.
//
// Faults apply to all connections, present and future, and can be combined. They can be changed at any time, and
// apply to data in flight as well. All methods are safe for concurrent use. After Close, methods without an error
// result do nothing.
//
// The proxy keeps up to 256 KiB for each direction of each connection. Beyond that it does not read, and the sender
// blocks when the system's buffers are full as well.
//
// The end of a connection, a FIN or a RST, arrives after the data that was sent before it. On a network, this holds
// for a FIN, but a RST can overtake data for which the receiver has no room. Here it cannot. A receiver that has
// stopped reading, with more data sent than its system buffers, notices the end only when it reads on. To deliver a
// RST at once, call [Proxy.Reset].
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup // the listener and the connections
	// open ends with the proxy, by shut.
	open context.Context //nolint:containedctx // the life of the proxy
	shut context.CancelFunc

	mu sync.Mutex
	// changed is signalled when counters change and when a write ends.
	changed                      *sync.Cond
	conns                        map[*proxyConn]struct{}
	detours                      []*detour
	toServer, toClient           conditions
	accepted, reached, unreached int
	closed                       bool
}

// NewProxy makes a proxy for the server at target, as host:port. The server need not run yet: the proxy dials it for
// each connection of a client. The caller must Close the proxy.
func NewProxy(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("faultinject: proxy: target: %w", err)
	}
	l, err := listen()
	if err != nil {
		return nil, fmt.Errorf("faultinject: proxy before %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: l, conns: make(map[*proxyConn]struct{})}
	p.open, p.shut = context.WithCancel(context.Background())
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.serve)
	return p, nil
}

// listen listens at a free port of loopback below the ports for outgoing connections. A client that redials a closed
// proxy at such a port could reach itself.
func listen() (net.Listener, error) {
	const lowest, count, attempts = 10_000, 20_000, 100
	for range attempts {
		port := lowest + rand.IntN(count)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// Addr returns the proxy's address for clients, as host:port. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends all connections, and drops withheld data and data in flight. It returns when all goroutines of the proxy
// have ended, even if the peers do nothing. The error is always nil, and closing more than once does nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.shut()
	for c := range p.conns {
		c.end(false)
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close() // fails only if closed already
	p.running.Wait()
	return nil
}

// serve accepts connections until the listener is closed.
func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case err == nil:
			p.admit(conn.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(10 * time.Millisecond) // out of file descriptors: there may be some later
		}
	}
}

// admit accepts a client.
func (p *Proxy) admit(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := newProxyConn(p, client, cancel)
	for _, d := range p.detours {
		if d.twice {
			c.toServer.enter(d)
		}
	}
	p.accepted++
	p.conns[c] = struct{}{}
	p.changed.Broadcast()
	p.running.Go(func() { c.run(ctx) })
}

// forget removes an ended connection.
func (p *Proxy) forget(c *proxyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	p.changed.Broadcast()
}

// ProxyStats counts the traffic of a [Proxy] since it was made.
type ProxyStats struct {
	// Accepted counts connections of clients. Reached counts the connections that were made to the target, and
	// Unreached the ones that were reset because the target could not be reached. Open counts the present ones,
	// including hanging ones.
	Accepted, Reached, Unreached, Open int
	// ToServer and ToClient are the bytes in each direction.
	ToServer, ToClient ProxyBytes
}

// ProxyBytes counts the bytes of one direction on all connections.
type ProxyBytes struct {
	// Received counts the bytes that the proxy read from senders, Passed the bytes that it wrote to receivers.
	// The difference is withheld, in flight, or was lost with a connection.
	Received, Passed uint64
}

// Stats returns the counters as they are now.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats()
}

func (p *Proxy) stats() ProxyStats {
	return ProxyStats{p.accepted, p.reached, p.unreached, len(p.conns), p.toServer.bytes, p.toClient.bytes}
}

// Await returns once done reports true for the counters, such as a number of bytes passed or of open connections. It
// replaces sleeps in tests. done is called at each change, and must not call the proxy. If ctx ends or the proxy is
// closed before, the error names the counters at that time.
func (p *Proxy) Await(ctx context.Context, done func(ProxyStats) bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		s := p.stats()
		err := ctx.Err()
		switch {
		case done(s):
			return nil
		case err == nil && p.closed:
			err = net.ErrClosed
		}
		if err != nil {
			return fmt.Errorf("faultinject: proxy before %s: await, at %+v: %w", p.target, s, err)
		}
		p.changed.Wait()
	}
}
