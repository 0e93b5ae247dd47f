package node_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// awaitSharers waits until this number of exchanges is under way.
func awaitSharers(t testing.TB, n node.Node, count int) {
	t.Helper()
	sharers := n.(serverNode).Sharers
	poll(t, func() bool { return sharers() == count }, func() any { return fmt.Sprint("exchanges under way: ", sharers()) })
}

// doAll starts an exchange for each operation. The function that it returns waits for the replies.
func doAll(n node.Node, ops ...wire.Op) (wait func() []wire.Reply) {
	replies := make([]wire.Reply, len(ops))
	var wg sync.WaitGroup
	for i, op := range ops {
		wg.Go(func() { replies[i] = do(n, op)[0] })
	}
	return func() []wire.Reply {
		wg.Wait()
		return replies
	}
}

// sharers is how many exchanges these tests make overlap.
const sharers = 8

// each makes an operation for each of several owners and names, one for each sharer.
func each(make func(owner string, names ...string) wire.Op) (ops []wire.Op) {
	for i := range sharers {
		ops = append(ops, make(fmt.Sprint("o", i), fmt.Sprint("name ", i)))
	}
	return ops
}

// overlap makes exchanges overlap, while the server is paused, and returns their replies.
func overlap(t testing.TB, n node.Node, server *redisproc.Server, ops ...wire.Op) []wire.Reply {
	t.Helper()
	server.Pause()
	wait := doAll(n, ops...)
	awaitSharers(t, n, len(ops))
	server.Resume()
	return wait()
}

// An exchange is sent while others wait for their replies, from the second time on: rueidis begins to pipeline once calls
// wait for another one.
func TestRedisExchangesOverlap(t *testing.T) {
	var n serverNode
	asked := 0
	n = open(t, redisproc.Serve(t, fake(func([]string) (string, bool) {
		switch asked++; {
		case asked == 1:
			awaitSharers(t, n, sharers) // A sharer may not have called rueidis yet, but not all of them.
			return ":1\r\n", true
		case asked <= sharers:
			return ":1\r\n", true
		case asked < 2*sharers:
			return "", true
		default:
			return strings.Repeat(":1\r\n", sharers), true
		}
	})).Addr())
	for range 2 {
		for _, r := range doAll(n, each(acquire)...)() {
			require.NoError(t, r.Err)
			assert.Equal(t, wire.Granted, r.Outcome)
		}
	}
}

// A node knows its round trip only after some exchanges on a connection: one may be slow for any reason.
func TestRedisRoundTrip(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	for range 2 {
		assert.Zero(t, n.RoundTrip())
		began := time.Now()
		exchanges := 0
		for ; n.RoundTrip() == 0; exchanges++ {
			want(t, wire.Absent, n, release("o1", "a"))
		}
		assert.Greater(t, exchanges, 10)
		assert.Positive(t, n.RoundTrip())
		assert.Less(t, n.RoundTrip(), time.Since(began)/time.Duration(exchanges))
		server.Kill()
		require.Error(t, n.Probe(t.Context()))
		server.Restart()
	}
}

// Each reply belongs to its operation.
func TestRedisRepliesOfExchangesThatOverlap(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("another", "name 3"))
	for range 3 {
		for i, r := range overlap(t, n, server, each(acquire)...) {
			require.NoError(t, r.Err)
			if i == 3 {
				assert.Equal(t, wire.Denied, r.Outcome)
				assert.Equal(t, "another", r.Holder.Owner)
			} else {
				assert.Equal(t, wire.Granted, r.Outcome)
			}
		}
		for i, r := range overlap(t, n, server, each(func(_ string, names ...string) wire.Op { return inspect(names...) })...) {
			require.NoError(t, r.Err)
			require.Len(t, r.Holders, 1)
			assert.Equal(t, fmt.Sprint("name ", i), r.Holders[0].Name)
		}
		command(t, server, "SCRIPT", "FLUSH")
		for i, r := range overlap(t, n, server, each(release)...) {
			require.NoError(t, r.Err)
			assert.Equal(t, i == 3, r.Outcome == wire.Absent)
		}
	}
	assert.Equal(t, []string{"name 3"}, held(server))
}

// If the connection breaks, all exchanges are sent once more on one new connection.
func TestRedisExchangesThatBreakTogether(t *testing.T) {
	server := start(t)
	c := redisproc.Serve(t, redisproc.Forward(server.Addr()))
	n := open(t, c.Addr())
	warm(t, n)
	for range 3 { // the first time, no goroutine of rueidis uses the connection yet
		server.Pause()
		wait := doAll(n, each(acquire)...)
		awaitSharers(t, n, sharers)
		c.Sever()
		server.Resume()
		for _, r := range wait() {
			require.NoError(t, r.Err)
			assert.True(t, r.Repeated)
			assert.Equal(t, wire.Granted, r.Outcome)
		}
		assert.Equal(t, 2, strings.Count(command(t, server, "CLIENT", "LIST"), "id="), "one of the node, one of this test")
		for _, r := range overlap(t, n, server, each(release)...) {
			require.NoError(t, r.Err)
			assert.False(t, r.Repeated)
		}
		assert.Empty(t, held(server))
	}
}

// A server that falls silent costs the exchanges one timeout together. None is repeated.
func TestRedisExchangesThatTimeOutTogether(t *testing.T) {
	server := start(t)
	n := openWith(t, hasty(server.Addr()))
	for range 2 { // the first time, no goroutine of rueidis uses the connection yet
		eventually(t, wire.Absent, n, release("o1", "a"))
		server.Pause()
		began := time.Now()
		wait := doAll(n, each(acquire)...)
		for _, r := range wait() {
			require.Error(t, r.Err)
			assert.False(t, r.Repeated)
		}
		assert.Less(t, time.Since(began), soon)
		server.Resume()
		eventually(t, wire.Absent, n, release("o1", "a"))
		var last []wire.Reply // A stall of the machine makes releases time out too. They are repeated then.
		poll(t, func() bool {
			last = doAll(n, each(release)...)()
			return !slices.ContainsFunc(last, func(r wire.Reply) bool { return r.Err != nil })
		}, func() any { return last })
		assert.Empty(t, held(server), "what the silent server had in its buffer ran before the releases, or never")
	}
}

// The end of a connection that is idle is no failure, after exchanges overlapped too.
func TestRedisIdleConnectionAfterAnOverlap(t *testing.T) {
	server := start(t)
	c := redisproc.Serve(t, redisproc.Forward(server.Addr()))
	n := open(t, c.Addr())
	warm(t, n)
	for range 3 {
		overlap(t, n, server, each(release)...)
		overlap(t, n, server, each(release)...)
		c.Sever()
		time.Sleep(2 * time.Millisecond) // the connection has to be idle
		want(t, wire.Granted, n, acquire("o1", "a"))
		want(t, wire.Released, n, release("o1", "a"))
	}
}

// Close ends exchanges that are under way.
func TestRedisCloseDuringExchangesThatOverlap(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	warm(t, n)
	for _, r := range overlap(t, n, server, each(acquire)...) {
		require.NoError(t, r.Err)
	}
	server.Pause()
	defer server.Resume()
	wait := doAll(n, each(release)...)
	awaitSharers(t, n, sharers)
	require.NoError(t, n.Close())
	for _, r := range wait() {
		require.Error(t, r.Err)
	}
}

// Close may come between the moment at which an exchange lets others use the connection, and its write.
func TestRedisClosesAmongExchanges(t *testing.T) {
	server := start(t)
	for range 200 {
		n := open(t, server.Addr())
		want(t, wire.Absent, n, release("o1", "a"))
		wait := doAll(n, each(release)...)
		require.NoError(t, n.Close())
		for _, r := range wait() {
			if r.Err == nil {
				assert.Equal(t, wire.Absent, r.Outcome)
			} else if !errors.Is(r.Err, node.ErrClosed) {
				assert.ErrorIs(t, r.Err, node.ErrUnreachable)
			}
		}
	}
}
