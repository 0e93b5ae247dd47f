package faultinject

import (
	"context"
	"fmt"
	"net"
)

// ProxyStats counts the traffic of a [Proxy] since it was made.
type ProxyStats struct {
	// Accepted counts connections of clients. Reached counts those that were connected to the target, and Unreached
	// those that were reset because it could not be reached. Open counts the present ones, including hanging ones.
	Accepted, Reached, Unreached, Open int
	// ToServer and ToClient are the bytes in each direction.
	ToServer, ToClient ProxyBytes
}

// ProxyBytes counts the bytes of one direction on all connections.
type ProxyBytes struct {
	// Received counts the bytes that the proxy read from senders, Passed those that it wrote to receivers. The
	// difference is withheld, in flight, or was lost with a connection.
	Received, Passed uint64
}

// Stats returns the counters as they are now.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats()
}

func (p *Proxy) stats() ProxyStats {
	return ProxyStats{
		Accepted:  int(p.accepted),
		Reached:   p.reached,
		Unreached: p.unreached,
		Open:      len(p.conns),
		ToServer:  ProxyBytes{p.toServer.received, p.toServer.passed},
		ToClient:  ProxyBytes{p.toClient.received, p.toClient.passed},
	}
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
