package faultinject

import (
	"maps"
	"slices"
	"time"
)

// SetLatency delays all bytes of the direction by latency, and by a part of jitter that is
// drawn for each piece that arrives, from none to all of it. Bytes stay in order: a piece
// that is drawn a long delay holds up those behind it. What is under way meets the new
// values at once. Zero, or less, is no delay.
//
// How much can be under way, in each direction of each connection, is bounded
// ([BufferSize]), so a latency also limits the throughput, as the window of TCP does.
// Connections are set up without delay.
func (p *Proxy) SetLatency(d Direction, latency, jitter time.Duration) {
	p.change(d, func(c *conditions) { c.latency, c.jitter = max(latency, 0), max(jitter, 0) })
}

// SetBandwidth limits the direction to so many bytes per second, which all connections
// share by turns: n bytes take n/bytesPerSecond to pass, at least. An idle time gives no
// credit, and what a connection has not passed when it ends takes no time. Zero, or less, is
// no limit.
func (p *Proxy) SetBandwidth(d Direction, bytesPerSecond int64) {
	p.change(d, func(c *conditions) { c.setRate(bytesPerSecond) })
}

// Cut makes a black hole of the direction: when it returns, no byte passes, no end of a
// connection either, and nobody is told. What is sent is withheld, and arrives in order
// after [Proxy.Uncut]: TCP sends again what a network has lost, until it gets there or the
// connection dies. Senders can send until the buffers are full, and then block.
//
// New connections need both directions, and hang while either is cut: the kernel has
// accepted them, so that the client believes to be connected, but nothing of them is
// forwarded. One that the client closes meanwhile never reaches the server; on a network it
// would not have been established.
func (p *Proxy) Cut(d Direction) {
	p.change(d, func(c *conditions) { c.held, c.limit = true, nil })
}

// Uncut ends what [Proxy.Cut] or [Proxy.CutAfter] began or will begin. Latency and bandwidth
// stay.
func (p *Proxy) Uncut(d Direction) {
	p.change(d, func(c *conditions) { c.held, c.limit = false, nil })
}

// CutAfter lets exactly n more bytes pass in the direction, counted over all connections,
// and then acts at once, in the middle of a message if n is such. It replaces a cut that
// stands, so that a test can let bytes pass one by one. It acts once.
//
// With n of 0 or less, ThenHold is [Proxy.Cut], and ThenReset and ThenClose befall the
// first connection that has a byte to pass, before it does.
func (p *Proxy) CutAfter(d Direction, n int64, then CutAction) {
	if n <= 0 && then == ThenHold {
		p.Cut(d)
		return
	}
	p.change(d, func(c *conditions) { c.held, c.limit = false, &byteLimit{left: max(n, 0), then: then} })
}

// HalfClose shuts down the direction of all standing connections: the receiver gets what
// the proxy has read so far, under the conditions there are, and then the end of the
// stream (FIN). What the sender sends later is swallowed. The other direction goes on.
func (p *Proxy) HalfClose(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for c := range p.conns {
		for _, f := range c.flowsOf(d) {
			if !f.shut {
				f.shut = true
				f.push(mark{end: fin, at: now})
			}
		}
	}
}

// Reset ends all connections that the proxy has accepted, with a RST to both sides; what is
// withheld or under way is lost. It has happened when Reset returns. New connections are
// accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	conns := slices.Collect(maps.Keys(p.conns))
	for _, c := range conns {
		c.end(true)
	}
	p.mu.Unlock()
	for _, c := range conns {
		<-c.done
	}
}

// Refuse has new connections refused, as by a host where nothing listens. Standing ones
// stay; to end them as well is for [Proxy.Reset]. It does nothing if the proxy refuses
// already.
func (p *Proxy) Refuse() { p.entrance.close() }

// Accept ends [Proxy.Refuse]. It does nothing if the proxy does not refuse. It fails if
// the port was taken by somebody else meanwhile, or the proxy is closed.
func (p *Proxy) Accept() error { return p.entrance.open() }

// Heal returns to plain forwarding: no latency, no limit, no cut in either direction, and
// new connections are accepted, with the errors of [Proxy.Accept]. What is withheld passes.
// A connection that was reset or half-closed stays so.
func (p *Proxy) Heal() error {
	p.change(BothWays, (*conditions).plain)
	return p.Accept()
}

// change has conditions changed, also for bytes under way. When it returns, no write goes
// on that began before.
func (p *Proxy) change(d Direction, apply func(*conditions)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d&ToServer != 0 {
		apply(&p.toServer)
	}
	if d&ToClient != 0 {
		apply(&p.toClient)
	}
	p.wakeAll()
	for _, c := range slices.Collect(maps.Keys(p.conns)) {
		for _, f := range c.flowsOf(d) {
			f.interrupt()
		}
	}
}

func (c *proxyConn) flowsOf(d Direction) (flows []*flow) {
	if d&ToServer != 0 {
		flows = append(flows, c.toServer)
	}
	if d&ToClient != 0 {
		flows = append(flows, c.toClient)
	}
	return flows
}

// wakeAll has all flows look at their conditions again.
func (p *Proxy) wakeAll() {
	for c := range p.conns {
		notify(c.toServer.wake)
		notify(c.toClient.wake)
	}
}
