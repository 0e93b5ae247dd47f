package faultinject

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Proxy stands between clients and a server, forwards what they send over TCP, and breaks
// it: late, slow, cut, half-closed, reset, in either direction, in the middle of a message.
// It knows nothing of what the bytes mean.
//
// Faults befall all connections, standing and new ones, and can be combined. They can be
// changed at any time, and hold for bytes under way as well. All methods are safe for
// concurrent use. After Close, those without an error do nothing.
//
// The end of a connection, a FIN or a RST, goes on behind the bytes that were sent before
// it. For a FIN this is so on a network as well, but there a RST can overtake bytes that the
// receiver has no room for. Here it cannot: a receiver that has stopped reading, with more
// sent to it than its system's buffers hold, learns that its peer is gone only when it
// reads on. To have a RST there at once, call [Proxy.Reset].
//
// The same seed, and traffic that arrives in the same pieces, give the same delays; see
// [JitterSeed].
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

// ListenAt has the proxy listen at the address, as host:port, instead of a free port of
// 127.0.0.1.
func ListenAt(addr string) ProxyOption { return func(p *Proxy) { p.entrance.addr = addr } }

// JitterSeed seeds the drawing of delays, which is 0 otherwise. Each direction of each
// connection, counted in the order in which they come, draws a sequence of its own, a number
// for each piece that it reads.
func JitterSeed(seed uint64) ProxyOption { return func(p *Proxy) { p.seed = seed } }

// DefaultBufferSize is the size of a proxy's buffers in bytes, unless [BufferSize] says
// otherwise.
const DefaultBufferSize = 256 << 10

// BufferSize bounds how many bytes the proxy keeps, for each direction of each
// connection. Beyond that it does not read, and the sender blocks when the buffers of the
// system are full as well. Buffers start small, and grow up to the bound as they are needed.
func BufferSize(bytes int) ProxyOption { return func(p *Proxy) { p.buffer = bytes } }

// NewProxy makes a proxy before the server at the target, as host:port, which need not be
// there yet: it is dialled for each connection of a client. The caller must Close it.
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

// Addr is where clients reach the proxy, as host:port. It never changes.
func (p *Proxy) Addr() string { return p.entrance.addr }

// Target is the address of the server that new connections are forwarded to.
func (p *Proxy) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// SetTarget has new connections, and those that hang in a cut, forwarded to another
// server, as host:port. Standing ones stay with theirs. With an address that is none it
// fails and changes nothing.
func (p *Proxy) SetTarget(addr string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("faultinject: proxy before %s: target: %w", p.target, err)
	}
	p.target = addr
	return nil
}

// Close ends all connections, and what is withheld or under way is lost. It returns when all
// goroutines of the proxy have ended, whatever the peers do. The error is always nil, and
// closing more than once does nothing.
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

// admit takes in a client.
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

// forget drops a connection that is over.
func (p *Proxy) forget(c *proxyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	p.changed.Broadcast()
}

// cut reports whether new connections hang.
func (p *Proxy) cut() bool { return p.toServer.cut() || p.toClient.cut() }
