package faultinject

import (
	"context"
	"net"
	"sync"
)

// proxyConn is one connection of a client, and the connection to the server for it. It has four goroutines, two for
// each direction. The proxy's lock guards its fields.
type proxyConn struct {
	proxy              *Proxy
	client, server     *net.TCPConn
	toServer, toClient *flow
	cancel             context.CancelFunc // of the dial
	made               bool               // the server is dialled, or will be in any case
	over, reset        bool
	done               chan struct{} // closed when its goroutines have ended
}

func newProxyConn(p *Proxy, client *net.TCPConn, cancel context.CancelFunc) *proxyConn {
	c := &proxyConn{proxy: p, client: client, cancel: cancel, done: make(chan struct{})}
	c.toServer, c.toClient = newFlow(c, &p.toServer), newFlow(c, &p.toClient)
	c.toServer.opposite, c.toClient.opposite = c.toClient, c.toServer
	c.toServer.from, c.toClient.to = client, client
	return c
}

// run serves the connection until its end.
func (c *proxyConn) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(c.toServer.collect) // also while it hangs: to notice that the client gives up
	if c.connect(ctx) {
		wg.Go(c.toClient.collect)
		wg.Go(c.toClient.deliver)
		c.toServer.deliver()
	}
	wg.Wait()
	c.proxy.forget(c)
	close(c.done)
}

// connect waits for the end of a cut, and dials the server. If the dial fails, it waits for the end of a cut
// again, and resets the client.
func (c *proxyConn) connect(ctx context.Context) bool {
	if !c.awaitUncut() {
		return false
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", c.proxy.target)
	if err != nil {
		c.awaitUncut()
	}
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	defer c.proxy.changed.Broadcast()
	if err != nil {
		if !c.over {
			c.proxy.unreached++
			c.end(true)
		}
		return false
	}
	tcp := server.(*net.TCPConn)
	c.server, c.toServer.to, c.toClient.from = tcp, tcp, tcp
	if c.over {
		c.closeSockets(c.reset)
		return false
	}
	c.proxy.reached++
	return true
}

// awaitUncut returns once no direction is cut, or false if the connection ends before.
func (c *proxyConn) awaitUncut() bool {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	for !c.over && c.cut() {
		c.proxy.mu.Unlock()
		<-c.toServer.wake
		c.proxy.mu.Lock()
	}
	c.made = true
	return !c.over
}

// cut reports whether new connections hang.
func (c *proxyConn) cut() bool { return c.proxy.toServer.cut() || c.proxy.toClient.cut() }

// unmade reports whether the connection hangs in a cut. On a network it would not be established: if its client gives
// up now, the server must never see it.
func (c *proxyConn) unmade() bool { return !c.made && c.cut() }

// settle ends the connection when both sides have ended and have been told.
func (c *proxyConn) settle() {
	if up, down := c.toServer, c.toClient; up.ended && up.finished && down.ended && down.finished {
		c.end(false)
	}
}

// end closes the sockets, optionally with a RST, and ends all goroutines.
func (c *proxyConn) end(reset bool) {
	if c.over {
		return
	}
	c.over, c.reset = true, reset
	c.cancel()
	c.closeSockets(reset)
	for _, f := range []*flow{c.toServer, c.toClient} {
		notify(f.wake)
		notify(f.room)
	}
}

func (c *proxyConn) closeSockets(reset bool) {
	for _, s := range []*net.TCPConn{c.client, c.server} {
		if s == nil {
			continue
		}
		if reset {
			_ = s.SetLinger(0) // where it cannot be set, the socket is gone
		}
		_ = s.Close()
	}
}
