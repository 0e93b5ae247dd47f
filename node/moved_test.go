package node_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// movingAddress is an address that leads to one server after another, as a virtual IP does.
type movingAddress struct {
	to   atomic.Pointer[redisproc.Server]
	last atomic.Pointer[net.Conn]
}

func (a *movingAddress) open(t *testing.T) serverNode {
	t.Helper()
	return openWith(t, rueidis.ClientOption{
		InitAddress: []string{"virtual:1"},
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			c, err := d.DialContext(ctx, "tcp", a.to.Load().Addr())
			a.last.Store(&c)
			return c, err
		},
	})
}

// move makes the address lead to another server, and ends the connection.
func (a *movingAddress) move(to *redisproc.Server) {
	a.to.Store(to)
	if c := a.last.Load(); c != nil {
		_ = (*c).Close()
	}
}

// An address moves to another server, where the lock is granted, and back. The first server has lost nothing, so only
// the client can know that it must not grant the lock.
func TestAddressThatMovesAndReturnsRecovers(t *testing.T) {
	first, second := start(t), start(t)
	var a movingAddress
	a.move(first)
	n := a.open(t)
	want(t, wire.Granted, n, acquire("o1", "a"))
	want(t, wire.Released, n, release("o1", "a"))
	a.move(second)
	eventually(t, wire.Granted, n, acquire("o2", "a"))
	a.move(first)
	recovering(t, n, acquire("o3", "a"))
	// The server recovers for all clients, also those that have met no other server there.
	recovering(t, open(t, first.Addr()), acquire("o4", "a"))
}

// Each client that has met both servers may return at another time. The recovery that the first one began suffices for
// those that have seen the other server only before it. Otherwise clients that were idle would make it begin again and again.
func TestClientsThatReturnLaterBeginNoOtherRecovery(t *testing.T) {
	first, second := start(t), start(t)
	var at [2]movingAddress
	var nodes [2]serverNode
	for i := range at {
		at[i].move(first)
		nodes[i] = at[i].open(t)
		want(t, wire.Granted, nodes[i], acquire("o1", "a"))
		at[i].move(second)
		eventually(t, wire.Granted, nodes[i], acquire("o1", "a"))
		at[i].move(first)
	}
	time.Sleep(300 * time.Millisecond) // Clocks may differ by 2 % of the time since the other server answered: here of 15 s.
	ends := func(n serverNode) string {
		recovering(t, n, acquire("o2", "b"))
		return command(t, first, "HGET", "quorumlock:node", "since")
	}
	end := ends(nodes[0])
	require.Equal(t, end, ends(nodes[1]))

	at[1].move(second)
	recovering(t, nodes[1], acquire("o1", "a"))
	at[1].move(first)
	require.Greater(t, ends(nodes[1]), end, "the other server has served since")
}
