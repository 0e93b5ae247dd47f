package realtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// at lets a client use other addresses of the servers: the results of a function.
func (c *cluster) at(address func(i int, s *redisproc.Server) string) func(*quorumlock.Config) {
	return func(cfg *quorumlock.Config) {
		cfg.Addresses = nil
		for i, s := range c.servers {
			cfg.Addresses = append(cfg.Addresses, address(i, s))
		}
	}
}

// refused returns the error of an Acquire that must not wait.
func refused(t *testing.T, lock *quorumlock.Lock) *quorumlock.NoQuorumError {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := lock.Acquire(ctx)
	require.NoError(t, ctx.Err(), "Acquire waited, although it cannot succeed: %v", err)
	var noQuorum *quorumlock.NoQuorumError
	require.ErrorAs(t, err, &noQuorum)
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	return noQuorum
}

// namesNodes requires that an error names exactly these nodes.
func namesNodes(t *testing.T, errs []quorumlock.NodeError, want ...string) {
	t.Helper()
	require.ElementsMatch(t, want, namesOf(errs), "the error names other nodes")
}

func namesOf(errs []quorumlock.NodeError) []string {
	names := make([]string, 0, len(errs))
	for _, e := range errs {
		names = append(names, e.Node)
	}
	return names
}

func TestRealPasswords(t *testing.T) {
	c := startCluster(t, 5, redisproc.WithPassword("right"))
	for what, userinfo := range map[string]string{"wrong": ":mistaken@", "none": "", "wrong user": "nobody:right@"} {
		t.Run(what, func(t *testing.T) {
			address := func(_ int, s *redisproc.Server) string { return "redis://" + userinfo + s.Addr() }
			err := refused(t, c.client(c.at(address)).RedLock("job"))
			require.ErrorIs(t, err, node.ErrAuth)
			require.NotContains(t, err.Error(), "mistaken", "the error contains the password")
			t.Log(err)
			c.noKeys()
		})
	}
	t.Run("right on three", func(t *testing.T) {
		address := func(i int, s *redisproc.Server) string {
			return "redis://:" + []string{"right", "right", "right", "mistaken", "mistaken"}[i] + "@" + s.Addr()
		}
		client := c.client(c.at(address))
		require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context()))
		err := refused(t, client.MultiLock("job"))
		require.ErrorIs(t, err, node.ErrAuth)
		c.noKeys()
	})
	t.Run("right", func(t *testing.T) {
		address := func(_ int, s *redisproc.Server) string { return "redis://:right@" + s.Addr() }
		require.NoError(t, acquire(t, c.client(c.at(address)).MultiLock("job")).Release(t.Context()))
		c.noKeys()
	})
}

func TestRealKeysOfAnotherType(t *testing.T) {
	t.Parallel()
	types := map[string][]string{
		"string": {"SET", "job", "mine"},
		"list":   {"RPUSH", "job", "mine"},
		"set":    {"SADD", "job", "mine"},
		"zset":   {"ZADD", "job", "1", "mine"},
		"stream": {"XADD", "job", "*", "mine", "1"},
	}
	for kind, write := range types {
		t.Run(kind, func(t *testing.T) {
			c := startCluster(t, 5)
			client := c.client()
			c.command(3, write...)

			// On one node the error costs that node's vote only.
			require.NoError(t, acquire(t, client.RedLock("job")).Release(t.Context()))
			err := refused(t, client.MultiLock("job", "task"))
			require.ErrorIs(t, err, node.ErrWrongType)
			namesNodes(t, err.Nodes, c.servers[3].Addr())

			for i := range c.servers {
				if i != 3 {
					// An acquisition that was not needed may still arrive there, until its release does.
					eventually(t, soon, func() bool {
						_, err := c.servers[i].Command(write...)
						return err == nil
					}, "node %d is free", i)
				}
			}
			err = refused(t, client.RedLock("job"))
			require.ErrorIs(t, err, node.ErrWrongType)
			t.Log(err)
			for i := range c.servers {
				eventually(t, soon, func() bool { return slices.Equal(c.locks(i), []string{"job"}) }, "node %d has released the other name", i)
				require.Equal(t, kind, c.command(i, "TYPE", "job"), "the library removed a foreign key")
			}
		})
	}
}

func TestRealForeignHashWithoutExpiry(t *testing.T) {
	c := startCluster(t, 3)
	for i := range c.servers {
		c.command(i, "HSET", "job", "somebody", "1")
	}
	_, err := c.client().RedLock("job").TryAcquire(t.Context())
	var held *quorumlock.HeldError
	require.ErrorAs(t, err, &held)
	require.Negative(t, held.TTL, "without expiry")
	require.ErrorContains(t, err, "somebody")
	c.holds("job", "somebody")
}

func TestRealUnreachableNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 5)
	brief := withMaxTTL(2 * time.Second) // A short MaxTTL makes the recovery short.
	var cfg quorumlock.Config
	brief(&cfg)
	c.open(cfg.Limits())
	c.kill(0, 1, 2, 3, 4)
	lock := c.client(brief).RedLock("job") // New succeeds although no node answers.
	_, err := lock.TryAcquire(t.Context())
	var noQuorum *quorumlock.NoQuorumError
	require.ErrorAs(t, err, &noQuorum)
	require.ErrorIs(t, err, node.ErrUnreachable)
	require.Equal(t, []int{0, 5, 3}, []int{noQuorum.Agreed, noQuorum.Total, noQuorum.Need})
	require.GreaterOrEqual(t, len(noQuorum.Nodes), 3, "the error must name the nodes that failed: %v", err)
	require.Subset(t, c.addresses(), namesOf(noQuorum.Nodes))
	t.Log(err)

	// The nodes may come back, so Acquire waits for them.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = lock.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "the error must tell why Acquire waited")
	c.restart(0, 1, 2, 3, 4)
	require.NoError(t, acquire(t, lock).Release(t.Context()))
	c.noKeys()
}

func TestRealUnknownHost(t *testing.T) {
	client := newClient(t, func(cfg *quorumlock.Config) { cfg.Addresses = []string{"nowhere.invalid:6379"} })
	_, err := client.RedLock("job").TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
	require.ErrorContains(t, err, "nowhere.invalid:6379")
}

func TestRealUnusualNames(t *testing.T) {
	c := startCluster(t, 3)
	client := c.client()
	names := []string{
		"with space", "line\r\nbreak", "zero\x00byte", "\xff\xfe not UTF-8", "{tag}rest", "}{", "*", "-1", "ключ",
		strings.Repeat("n", quorumlock.MaxNameLength),
	}
	for _, name := range names {
		lease := acquire(t, client.RedLock(name))
		for i := range c.servers {
			eventually(t, soon, func() bool { return c.owner(i, name) == lease.Owner() }, "the key is the name %q, byte by byte", name)
		}
		require.NoError(t, lease.Release(t.Context()), "%q", name)
		c.noKeys()
	}
	slices.Reverse(names)
	lease := acquire(t, client.MultiLock(names...))
	require.Len(t, c.locks(1), len(names))
	require.NoError(t, lease.Release(t.Context()))
	c.noKeys()
}
