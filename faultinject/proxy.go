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

// Proxy forwards TCP data between clients and a server, and makes it late or withholds it, in either direction; see
// [Proxy.Detain] for data that arrives behind newer data. It does not interpret the data.
//
// Faults apply to all connections, present and future, and can be combined. They can be changed at any time, and
// apply to data in flight as well. All methods are safe for concurrent use. After Close, methods without an error
// result do nothing.
//
// The proxy keeps the data of up to 256 reads for each direction of each connection. Beyond that it does not read, and
// the sender blocks when the system's buffers are full as well.
//
// The end of a connection, a FIN or a RST, arrives after the data that was sent before it. On a network, this holds
// for a FIN, but a RST can overtake data for which the receiver has no room. Here it cannot. A receiver that has
// stopped reading, with more data sent than its system buffers, notices the end only when it reads on.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup // the listener and the connections
	// open ends with the proxy, by shut.
	open context.Context //nolint:containedctx // the life of the proxy
	shut context.CancelFunc

	mu                 sync.Mutex
	conns              map[*proxyConn]struct{}
	detours            []*detour
	toServer, toClient conditions
	// changed is closed, and replaced, at each change of the conditions.
	changed chan struct{}
}

type conditions struct {
	latency time.Duration
	cut     bool
}

// Direction is a direction of data through a [Proxy]. Methods that take one also take BothWays.
type Direction uint8

// The directions.
const (
	// ToServer is from the client to the server.
	ToServer Direction = 1 << iota
	// ToClient is from the server to the client.
	ToClient
	// BothWays is each of the two.
	BothWays = ToServer | ToClient
)

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
	p := &Proxy{target: target, listener: l, conns: make(map[*proxyConn]struct{}), changed: make(chan struct{})}
	p.open, p.shut = context.WithCancel(context.Background())
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
	p.shut()
	p.mu.Unlock()
	_ = p.listener.Close() // fails only if closed already
	p.running.Wait()
	return nil
}

// SetLatency delays all bytes of the direction. The new value applies to data in flight at once. Zero, or less, is no
// delay.
//
// The amount of data in flight is bounded for each direction of each connection. So a latency also limits the
// throughput, as the window of TCP does. Connections are established without delay.
func (p *Proxy) SetLatency(d Direction, latency time.Duration) {
	p.change(d, func(c *conditions) { c.latency = latency })
}

// Cut makes the direction a black hole, silently: no data and no end of a connection passes, except what is at that
// moment being handed to the receiver. The data is withheld, and arrives in order after [Proxy.Uncut], as TCP
// retransmits lost data until the connection dies. Senders can send until the buffers are full, and then block.
//
// New connections need both directions, and hang while either is cut. The kernel has accepted them, so the client
// believes that it is connected, but nothing is forwarded. A connection that its client closes meanwhile never
// reaches the server; on a network it would not have been established.
func (p *Proxy) Cut(d Direction) { p.change(d, func(c *conditions) { c.cut = true }) }

// Uncut ends a cut by [Proxy.Cut]. The latency remains.
func (p *Proxy) Uncut(d Direction) { p.change(d, func(c *conditions) { c.cut = false }) }

// Heal returns to plain forwarding: no latency and no cut in either direction. Withheld data passes.
func (p *Proxy) Heal() { p.change(BothWays, func(c *conditions) { *c = conditions{} }) }

func (p *Proxy) change(d Direction, apply func(*conditions)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d&ToServer != 0 {
		apply(&p.toServer)
	}
	if d&ToClient != 0 {
		apply(&p.toClient)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// under returns the conditions of a direction, and what is closed when they change. Of both directions, it is cut if one
// of them is.
func (p *Proxy) under(d Direction) (conditions, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch d {
	case ToServer:
		return p.toServer, p.changed
	case ToClient:
		return p.toClient, p.changed
	default:
		return conditions{cut: p.toServer.cut || p.toClient.cut}, p.changed
	}
}

// await returns once something that arrived at that time may go on in the direction, or false if ctx ends before.
func (p *Proxy) await(ctx context.Context, d Direction, arrived time.Time) bool {
	for {
		c, changed := p.under(d)
		wait := time.Until(arrived.Add(c.latency))
		if !c.cut && wait <= 0 {
			return ctx.Err() == nil
		}
		var due <-chan time.Time
		if !c.cut {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (p *Proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case err == nil:
			p.running.Go(func() { p.forward(conn.(*net.TCPConn)) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(10 * time.Millisecond) // out of file descriptors: there may be some later
		}
	}
}
