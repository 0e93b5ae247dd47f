package faultinject

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
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

// forward serves one connection until its end.
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
