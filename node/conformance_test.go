package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/nodetest"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func TestMemoryConforms(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Subject {
		c := testkit.NewClock(time.UnixMicro(1_700_000_000_765_432))
		m := memory.New("memory", c)
		t.Cleanup(func() { _ = m.Close() })
		return nodetest.Subject{
			// Redis keeps a key until its last millisecond is over.
			Node: m, Pass: func(d time.Duration) { c.Advance(d + time.Millisecond) }, Plant: m.Plant, Keys: m.Keys, Forget: m.Flush,
			Restart: func() { m.Save(); m.Crash() },
		}
	})
}

func TestRedisConforms(t *testing.T) {
	t.Parallel()
	server := redisproc.Start(t)
	nodetest.Run(t, func(t *testing.T) nodetest.Subject { return redisSubject(t, server, server.Addr()) })
}

// Proxies and old configurations may use the old protocol. A server may also listen on a Unix
// socket.
func TestRedisConformsOverRESP2AndASocket(t *testing.T) {
	t.Parallel()
	server := redisproc.Start(t)
	address := "unix://" + server.Socket() + "?protocol=2"
	nodetest.Run(t, func(t *testing.T) nodetest.Subject { return redisSubject(t, server, address) })
}

func redisSubject(t *testing.T, server *redisproc.Server, address string) nodetest.Subject {
	t.Helper()
	command(t, server, "FLUSHALL")
	return nodetest.Subject{
		Node:    open(t, address),
		Pass:    func(d time.Duration) { pass(t, server, d) },
		Plant:   func(key string) { command(t, server, "SET", key, "not a lock") },
		Keys:    func() []string { return locks(t, server) },
		Forget:  func() { command(t, server, "FLUSHALL") },
		Restart: func() { renewIdentity(t, server) },
		Second:  func() node.Node { return open(t, address) },
	}
}

// pass waits until the server's own clock has moved on by d.
func pass(t *testing.T, server *redisproc.Server, d time.Duration) {
	t.Helper()
	// TTLs are whole milliseconds. One more millisecond ensures that none is left.
	for end := serverTime(t, server).Add(d + time.Millisecond); serverTime(t, server).Before(end); {
	}
}

// serverTime returns the time of the server's clock.
func serverTime(t *testing.T, server *redisproc.Server) time.Time {
	t.Helper()
	seconds, micros, _ := strings.Cut(command(t, server, "TIME"), "\n")
	return time.Unix(number(t, seconds), number(t, micros)*1000)
}

// renewIdentity gives a server a new identity without a loss of memory. The server becomes a
// replica and turns into a master again before it dials.
func renewIdentity(t *testing.T, server *redisproc.Server) {
	t.Helper()
	command(t, server, "REPLICAOF", "127.0.0.1", "1")
	command(t, server, "REPLICAOF", "NO", "ONE")
}

// locks lists the keys that have the type of a lock.
func locks(t *testing.T, server *redisproc.Server) []string {
	t.Helper()
	keys := []string{}
	for _, key := range held(server) {
		if command(t, server, "TYPE", key) == "hash" {
			keys = append(keys, key)
		}
	}
	return keys
}
