package faultinject

import (
	"maps"
	"slices"
	"time"
)

// SetLatency delays all bytes of the direction by latency, plus a random part of jitter for each piece that arrives.
// Bytes stay in order: a piece with a long delay holds up those behind it. The new values apply to data in flight at
// once. Zero, or less, is no delay.
//
// The amount of data in flight is bounded for each direction of each connection ([BufferSize]). So a latency also
// limits the throughput, as the window of TCP does. Connections are established without delay.
func (p *Proxy) SetLatency(d Direction, latency, jitter time.Duration) {
	p.change(d, func(c *conditions) { c.latency, c.jitter = max(latency, 0), max(jitter, 0) })
}

// SetBandwidth limits the direction to a rate that all connections share by turns: n bytes take at least
// n/bytesPerSecond. Idle time gives no credit. Data that a connection has not passed when it ends takes no time.
// Zero, or less, is no limit.
func (p *Proxy) SetBandwidth(d Direction, bytesPerSecond int64) {
	p.change(d, func(c *conditions) { c.setRate(bytesPerSecond) })
}

// Cut makes the direction a black hole: when it returns, no data and no end of a connection passes, silently. The
// data is withheld, and arrives in order after [Proxy.Uncut], as TCP retransmits lost data until the connection dies.
// Senders can send until the buffers are full, and then block.
//
// New connections need both directions, and hang while either is cut. The kernel has accepted them, so the client
// believes that it is connected, but nothing is forwarded. A connection that its client closes meanwhile never
// reaches the server; on a network it would not have been established.
func (p *Proxy) Cut(d Direction) {
	p.change(d, func(c *conditions) { c.held, c.limit = true, nil })
}

// Uncut ends a present or future cut by [Proxy.Cut] or [Proxy.CutAfter]. Latency and bandwidth remain.
func (p *Proxy) Uncut(d Direction) {
	p.change(d, func(c *conditions) { c.held, c.limit = false, nil })
}

// CutAfter passes exactly n more bytes in the direction, counted over all connections, and then acts at once, even in
// the middle of a message. It replaces an existing cut, so that a test can pass bytes one by one. It acts once.
//
// With n of 0 or less, ThenHold is [Proxy.Cut]. ThenReset and ThenClose then apply to the first connection that has a
// byte to pass, before it does.
func (p *Proxy) CutAfter(d Direction, n int64, then CutAction) {
	if n <= 0 && then == ThenHold {
		p.Cut(d)
		return
	}
	p.change(d, func(c *conditions) { c.held, c.limit = false, &byteLimit{left: max(n, 0), then: then} })
}

// HalfClose shuts down the direction of all established connections. The receiver gets the data that the proxy has
// read so far, under the present conditions, and then the end of the stream (FIN). Later data is dropped. The other
// direction continues.
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

// Reset ends all accepted connections with a RST to both sides, before it returns. Withheld data and data in flight
// are lost. New connections are accepted.
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

// Refuse makes new connections fail, as on a host without a listener. Established ones stay; use [Proxy.Reset] to end
// them. It does nothing if the proxy refuses already.
func (p *Proxy) Refuse() { p.entrance.close() }

// Accept ends [Proxy.Refuse]. It does nothing if the proxy does not refuse. It fails if another process took the port
// meanwhile, or the proxy is closed.
func (p *Proxy) Accept() error { return p.entrance.open() }

// Heal returns to plain forwarding: no latency, no limit, no cut in either direction. It accepts new connections,
// with the errors of [Proxy.Accept]. Withheld data passes. Connections that were reset or half-closed stay so.
func (p *Proxy) Heal() error {
	p.change(BothWays, (*conditions).plain)
	return p.Accept()
}

// change changes conditions, also for data in flight. When it returns, no earlier write is in progress.
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

// wakeAll makes all flows check their conditions again.
func (p *Proxy) wakeAll() {
	for c := range p.conns {
		notify(c.toServer.wake)
		notify(c.toClient.wake)
	}
}
