package faultinject

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// A flow, which is one direction of one connection, keeps this many pieces, of this many bytes at most.
const (
	flowPieces = 256
	readSize   = 32 << 10
)

// proxyConn is one connection of a client, and the connection to the server for it. Each direction has a goroutine that
// reads and one that writes.
type proxyConn struct {
	proxy          *Proxy
	client, server *net.TCPConn
	cancel         context.CancelFunc

	// The proxy's lock guards the rest. made is set once the server is dialled, or will be in any case.
	made bool
	// greeting is the first data of the client, and lanes are where its data is kept for detours. detained means that its
	// data does not take the usual way any more.
	greeting []byte
	lanes    []*lane
	detained bool
}

// piece is the data of one read, or the end behind it.
type piece struct {
	data []byte
	end  error
	at   time.Time // of its arrival
}

func (p *Proxy) forward(client *net.TCPConn) {
	ctx, cancel := context.WithCancel(p.open)
	defer cancel()
	c := &proxyConn{proxy: p, client: client, cancel: cancel}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	for _, d := range p.detours {
		if d.twice {
			c.enter(d)
		}
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	var flows sync.WaitGroup
	defer flows.Wait()
	up := make(chan piece, flowPieces)
	flows.Go(func() { c.collect(ctx, client, up, true) }) // also while it hangs: to notice that the client gives up
	if !c.dial(ctx) {
		reset(client)
		cancel()
		return
	}
	defer context.AfterFunc(ctx, func() { _ = c.server.Close() })()
	down := make(chan piece, flowPieces)
	flows.Go(func() { c.collect(ctx, c.server, down, false) })
	var delivered sync.WaitGroup
	delivered.Go(func() { c.deliver(ctx, ToServer, up, c.server) })
	delivered.Go(func() { c.deliver(ctx, ToClient, down, client) })
	delivered.Wait()
	_, _ = client.Close(), c.server.Close()
	cancel()
}

// dial waits for the end of a cut, and dials the server.
func (c *proxyConn) dial(ctx context.Context) bool {
	if !c.proxy.await(ctx, BothWays, time.Time{}) {
		return false
	}
	c.proxy.mu.Lock()
	c.made = true
	c.proxy.mu.Unlock()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", c.proxy.target)
	if err != nil {
		c.proxy.await(ctx, ToClient, time.Time{}) // the network may have been cut meanwhile
		return false
	}
	c.server = server.(*net.TCPConn)
	return true
}

// collect reads until the sender ends, or the connection.
func (c *proxyConn) collect(ctx context.Context, from net.Conn, into chan<- piece, ofClient bool) {
	buffer := make([]byte, readSize)
	for {
		n, err := from.Read(buffer)
		pieces := []piece{{data: bytes.Clone(buffer[:n]), at: time.Now()}, {end: err, at: time.Now()}}
		if n == 0 || ofClient && !c.keep(pieces[0].data) {
			pieces = pieces[1:]
		}
		if err == nil {
			pieces = pieces[:len(pieces)-1]
		} else if ofClient && c.unmade() {
			c.cancel()
		}
		for _, p := range pieces {
			select {
			case into <- p:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// unmade reports whether the connection hangs in a cut. On a network it would not be established: if its client gives
// up now, the server must never see it.
func (c *proxyConn) unmade() bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	return !c.made && (c.proxy.toServer.cut || c.proxy.toClient.cut)
}

// deliver writes to the receiver when the conditions allow, up to the end of the sender. If the receiver is gone, reading
// from it shows that, and the sender learns of it in its turn.
func (c *proxyConn) deliver(ctx context.Context, d Direction, from <-chan piece, to *net.TCPConn) {
	for {
		var head piece
		select {
		case head = <-from:
		case <-ctx.Done():
			return
		}
		if !c.proxy.await(ctx, d, head.at) {
			return
		}
		switch {
		case head.end == nil:
			if _, err := to.Write(head.data); err != nil {
				return
			}
		case errors.Is(head.end, io.EOF):
			_ = to.CloseWrite() // fails only if the receiver is gone
			return
		default:
			reset(c.client)
			reset(c.server)
			c.cancel()
			return
		}
	}
}

// reset closes a socket with a RST.
func reset(s *net.TCPConn) {
	_ = s.SetLinger(0) // where it cannot be set, the socket is gone
	_ = s.Close()
}

// detour keeps what some clients write, for a later time.
type detour struct {
	// twice is set if the data also takes the usual way. Then the detour is for new connections too.
	twice bool
	// lanes has a lane for each connection.
	lanes []*lane
}

// lane is what the client of one connection wrote while a detour was open: its greeting, and then the data of each read.
type lane struct {
	greeting []byte
	pieces   [][]byte
	size     int
}

// mostKept bounds the bytes of a lane. The rest is lost.
const mostKept = 1 << 20

// Detain keeps what the clients of the present connections write to the server from now on, until deliver is called. A
// connection that is detained stays silent: its client gets no answer to what it wrote, and gives up. New connections
// work as usual. So deliver lets the server receive old data behind newer data, and also if the client closed the
// connection or its process has ended.
//
// With twice, the data also reaches the server at once, new connections are included, and clients notice nothing: the
// server receives the data again, at deliver, and in any order: what the proxy had read at once stays together, which is one
// request or several, unless they are long.
//
// deliver sends the data of each connection to the server over a connection of its own, behind the greeting of the client:
// the first data that the client ever wrote. It does not wait for the server, and drops the answers. Calling it again does
// nothing.
//
// TCP itself delivers late data of a connection that is gone, because the sender's system repeats lost packets, also for a
// process that has ended. It does so only while the server keeps the connection open: a CLIENT KILL protects from that,
// where the client may run it. Beyond TCP, this models a middlebox that has accepted the data, such as a load balancer, and
// that sends it to the server over another connection, or sends it once more because it saw no answer.
func (p *Proxy) Detain(twice bool) (deliver func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &detour{twice: twice}
	for c := range p.conns {
		c.enter(d)
	}
	p.detours = append(p.detours, d)
	return func() { p.deliver(d) }
}

// enter makes a connection keep its client's data for a detour too. Requires the proxy's lock.
func (c *proxyConn) enter(d *detour) {
	l := &lane{greeting: c.greeting}
	d.lanes = append(d.lanes, l)
	c.lanes = append(c.lanes, l)
	c.detained = c.detained || !d.twice
}

// keep keeps data of the client for the detours, and reports whether it takes the usual way as well.
func (c *proxyConn) keep(data []byte) (passes bool) {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	for _, l := range c.lanes {
		switch l.size += len(data); {
		case l.greeting == nil:
			l.greeting = data
		case l.size <= mostKept:
			l.pieces = append(l.pieces, data)
		}
	}
	if c.greeting == nil {
		c.greeting = data
	}
	return !c.detained
}

func (p *Proxy) deliver(d *detour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.detours, d)
	if i < 0 || p.open.Err() != nil {
		return
	}
	p.detours = slices.Delete(p.detours, i, i+1)
	for c := range p.conns {
		c.lanes = slices.DeleteFunc(c.lanes, func(l *lane) bool { return slices.Contains(d.lanes, l) })
	}
	for _, l := range d.lanes {
		if d.twice {
			rand.Shuffle(len(l.pieces), func(i, j int) { l.pieces[i], l.pieces[j] = l.pieces[j], l.pieces[i] })
		}
		if l.size > 0 {
			p.running.Go(func() { p.send(slices.Concat(l.greeting, slices.Concat(l.pieces...))) })
		}
	}
}

// send sends data over a new connection, up to the end that the server makes of it. If there is no server now, the data is
// lost.
func (p *Proxy) send(data []byte) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(p.open, "tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(p.open, func() { _ = conn.Close() })()
	if _, err := conn.Write(data); err == nil && conn.(*net.TCPConn).CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}
