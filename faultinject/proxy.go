package faultinject

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Proxy forwards TCP data between clients and a server, and breaks it: late, slow, cut, half-closed, reset, in either
// direction, in the middle of a message. It does not interpret the data.
//
// Faults apply to all connections, present and future, and can be combined. They can be changed at any time, and
// apply to data in flight as well. All methods are safe for concurrent use. After Close, methods without an error
// result do nothing.
//
// The end of a connection, a FIN or a RST, arrives after the data that was sent before it. On a network, this holds
// for a FIN, but a RST can overtake data for which the receiver has no room. Here it cannot. A receiver that has
// stopped reading, with more data sent than its system buffers, notices the end only when it reads on. To deliver a
// RST at once, call [Proxy.Reset].
//
// The same seed, and traffic in the same pieces, give the same delays; see [JitterSeed].
type Proxy struct {
	seed     uint64
	buffer   int
	entrance entrance
	running  sync.WaitGroup // the connections

	mu sync.Mutex
	// changed is signalled when counters change and when a write ends.
	changed            *sync.Cond
	target             string
	conns              map[*proxyConn]struct{}
	toServer, toClient conditions
	accepted           uint64
	reached, unreached int
	closed             bool
}

// ProxyOption changes how a [Proxy] is made.
type ProxyOption func(*Proxy)

// ListenAt makes the proxy listen at the address, as host:port, instead of a free port of 127.0.0.1.
func ListenAt(addr string) ProxyOption { return func(p *Proxy) { p.entrance.addr = addr } }

// JitterSeed sets the seed of random delays, which is 0 otherwise. Each direction of each connection, in the order of
// arrival, has its own sequence, with a number for each piece that it reads.
func JitterSeed(seed uint64) ProxyOption { return func(p *Proxy) { p.seed = seed } }

// DefaultBufferSize is the size of a proxy's buffers in bytes, unless [BufferSize] says
// otherwise.
const DefaultBufferSize = 256 << 10

// BufferSize bounds the bytes that the proxy keeps, for each direction of each connection. Beyond that it does not
// read, and the sender blocks when the system's buffers are full as well. Buffers start small, and grow up to the
// bound.
func BufferSize(bytes int) ProxyOption { return func(p *Proxy) { p.buffer = bytes } }

// NewProxy makes a proxy for the server at target, as host:port. The server need not run yet: the proxy dials it for
// each connection of a client. The caller must Close the proxy.
func NewProxy(target string, opts ...ProxyOption) (*Proxy, error) {
	p := &Proxy{target: target, buffer: DefaultBufferSize, conns: make(map[*proxyConn]struct{})}
	p.changed = sync.NewCond(&p.mu)
	p.entrance.admit = p.admit
	for _, o := range opts {
		o(p)
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("faultinject: proxy: target: %w", err)
	}
	if p.buffer <= 0 {
		return nil, fmt.Errorf("faultinject: proxy before %s: a buffer of %d bytes", target, p.buffer)
	}
	if err := p.entrance.open(); err != nil {
		return nil, err
	}
	return p, nil
}

// Addr returns the proxy's address for clients, as host:port. It never changes.
func (p *Proxy) Addr() string { return p.entrance.addr }

// Target returns the address of the server for new connections.
func (p *Proxy) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// SetTarget sets another server, as host:port, for new connections and those that hang in a cut. Established ones
// stay with theirs. An invalid address is an error and changes nothing.
func (p *Proxy) SetTarget(addr string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("faultinject: proxy before %s: target: %w", p.target, err)
	}
	p.target = addr
	return nil
}

// Close ends all connections, and drops withheld data and data in flight. It returns when all goroutines of the proxy
// have ended, whatever the peers do. The error is always nil, and closing more than once does nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.end(false)
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.entrance.closeForGood()
	p.running.Wait()
	return nil
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
	c := newProxyConn(p, p.accepted, client, cancel)
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

// cut reports whether new connections hang.
func (p *Proxy) cut() bool { return p.toServer.cut() || p.toClient.cut() }
