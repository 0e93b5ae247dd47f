package faultinject

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

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

// String returns the direction in words.
func (d Direction) String() string {
	switch d {
	case ToServer:
		return "to the server"
	case ToClient:
		return "to the client"
	case BothWays:
		return "both ways"
	default:
		return "direction " + strconv.Itoa(int(d))
	}
}

// CutAction is the action after the bytes of [Proxy.CutAfter].
type CutAction uint8

// The actions.
const (
	// ThenHold cuts the direction, as [Proxy.Cut] does, for all connections.
	ThenHold CutAction = iota
	// ThenReset ends the connection that passed the last byte, with a RST to both sides. As on a network, it may
	// overtake data that the receiver has not read; on Linux and loopback, only data for which the receiver had no
	// room.
	ThenReset
	// ThenClose shuts down the direction of the connection that passed the last byte: its receiver reads the end of
	// the stream there, and later data of the sender is dropped. The other direction continues.
	ThenClose
)

// conditions apply to one direction of all connections. Guarded by the proxy's lock.
type conditions struct {
	latency, jitter time.Duration
	held            bool
	limit           *byteLimit
	bytes           ProxyBytes
}

// byteLimit is the number of bytes that pass before an action. One connection at a time writes under it, because
// another may be about to pass the last byte.
type byteLimit struct {
	left    int64 // not counting those of the write in progress
	writing bool
	then    CutAction
}

// due returns when a piece may continue. Its luck, from 0 to 1, selects the jitter.
func (c *conditions) due(head piece) time.Time {
	jitter := time.Duration(head.luck * float64(c.jitter))
	return head.at.Add(c.latency + min(jitter, math.MaxInt64-c.latency)) // the sum does not overflow
}

// cut reports whether the direction is cut, or will be by the write in progress that passes the last byte before the
// cut: after a receiver has seen that byte, the direction counts as cut.
func (c *conditions) cut() bool {
	return c.held || c.limit != nil && c.limit.left == 0 && c.limit.then == ThenHold
}

// SetLatency delays all bytes of the direction by latency, plus a random part of jitter for each piece that arrives.
// Bytes stay in order: a piece with a long delay holds up those behind it. The new values apply to data in flight at
// once. Zero, or less, is no delay.
//
// The amount of data in flight is bounded for each direction of each connection. So a latency also limits the
// throughput, as the window of TCP does. Connections are established without delay.
func (p *Proxy) SetLatency(d Direction, latency, jitter time.Duration) {
	p.change(d, func(c *conditions) { c.latency, c.jitter = max(latency, 0), max(jitter, 0) })
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

// Uncut ends a present or future cut by [Proxy.Cut] or [Proxy.CutAfter]. The latency remains.
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

// Heal returns to plain forwarding: no latency and no cut in either direction. Withheld data passes. Connections that
// were reset or closed stay so.
func (p *Proxy) Heal() {
	p.change(BothWays, func(c *conditions) { c.latency, c.jitter, c.held, c.limit = 0, 0, false, nil })
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
		if d&ToServer != 0 {
			c.toServer.interrupt()
		}
		if d&ToClient != 0 {
			c.toClient.interrupt()
		}
	}
}

// wakeAll makes all flows check their conditions again.
func (p *Proxy) wakeAll() {
	for c := range p.conns {
		notify(c.toServer.wake)
		notify(c.toClient.wake)
	}
}
