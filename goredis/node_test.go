package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// patience bounds every wait of a test.
const patience = 30 * time.Second

// start starts a server that grants locks.
func start(t *testing.T, opts ...redisproc.Option) *redisproc.Server {
	t.Helper()
	s := redisproc.Start(t, opts...)
	_, err := admin.Init(t.Context(), quorumlock.Config{Addresses: []string{s.Socket()}})
	require.NoError(t, err)
	return s
}

// closing closes the node when the test ends.
func closing(t *testing.T, n node.Node, err error) node.Node {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	return n
}

// client makes a client of the nodes, and closes it when the test ends, before the nodes.
func client(t *testing.T, nodes ...node.Node) *quorumlock.Client {
	t.Helper()
	c, err := quorumlock.New(quorumlock.Config{Nodes: nodes, NodeTimeoutMax: 3 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// hold acquires a lock, and releases it when the test ends.
func hold(t *testing.T, c *quorumlock.Client, name string) *quorumlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := c.RedLock(name).Acquire(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// handOn has one client wait for the lock of another, until a message of the server wakes it.
func handOn(t *testing.T, s *redisproc.Server, from, to *quorumlock.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := from.RedLock(name).Acquire(ctx)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		next, err := to.RedLock(name).Acquire(ctx)
		if err == nil {
			err = next.Release(ctx)
		}
		done <- err
	}()
	queued := func(key string) bool {
		return strings.HasPrefix(key, "quorumlock:waiting:") && strings.HasSuffix(strings.TrimSuffix(key, "}"), name)
	}
	require.Eventually(t, func() bool { return slices.ContainsFunc(s.Keys(), queued) }, patience, time.Millisecond)
	require.NoError(t, lease.Release(ctx))
	require.NoError(t, <-done)
}

func TestPlain(t *testing.T) {
	t.Parallel()
	s := start(t, redisproc.WithACL("user locker on >secret ~* &* +@all"))
	opt := &redis.Options{Addr: s.Addr(), Username: "locker", Password: "secret", DB: 3, ClientName: "billing", Protocol: 2}
	before := *opt
	n, err := New(opt)
	n = closing(t, n, err)
	assert.Equal(t, s.Addr(), n.Name())
	hold(t, client(t, n), "plain")
	assert.Equal(t, before.Addr, opt.Addr)
	assert.Nil(t, opt.Dialer, "the options of the caller stay as they were")

	// The service's own client, from the same options, finds the lock in its database.
	r := redis.NewClient(opt)
	t.Cleanup(func() { _ = r.Close() })
	found, err := r.Exists(t.Context(), "plain").Result()
	require.NoError(t, err)
	assert.EqualValues(t, 1, found)
	list, err := s.Command("CLIENT", "LIST")
	require.NoError(t, err)
	assert.Contains(t, list, "name=billing")
	assert.Contains(t, list, "user=locker")
}

// As go-redis does, a node sends no user without a password, and selects no negative database.
func TestUserWithoutAPassword(t *testing.T) {
	t.Parallel()
	s := start(t)
	for what, opt := range map[string]*redis.Options{
		"user":     {Addr: s.Addr(), Username: "nobody"},
		"provider": {Addr: s.Addr(), CredentialsProvider: func() (string, string) { return "nobody", "" }},
		"database": {Addr: s.Addr(), DB: -1},
	} {
		r := redis.NewClient(opt)
		require.NoError(t, r.Ping(t.Context()).Err(), what)
		require.NoError(t, r.Close())
		n, err := New(opt)
		n = closing(t, n, err)
		require.NoError(t, n.Probe(t.Context()), what)
	}
	sentinel := redisproc.StartSentinel(t, "mymaster", s)
	n, err := NewFailover(&redis.FailoverOptions{
		MasterName: "mymaster", SentinelAddrs: []string{sentinel.Addr()}, SentinelUsername: "nobody", Username: "nobody",
	})
	n = closing(t, n, err)
	require.NoError(t, n.Probe(t.Context()))
}

// Options that the caller changes after New have no effect.
func TestOptionsAreCopied(t *testing.T) {
	t.Parallel()
	s := start(t, redisproc.WithTLS())
	sentinel := redisproc.StartSentinel(t, "mymaster", s)
	opt := &redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{sentinel.Addr()}}
	n, err := NewFailover(opt)
	n = closing(t, n, err)
	opt.SentinelAddrs[0] = "127.0.0.1:1"
	require.NoError(t, n.Probe(t.Context()))

	config := &tls.Config{RootCAs: s.CertPool(), MinVersion: tls.VersionTLS12}
	n, err = New(&redis.Options{Addr: s.TLSAddr(), TLSConfig: config})
	n = closing(t, n, err)
	config.RootCAs = nil
	require.NoError(t, n.Probe(t.Context()))
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, opt := range []*redis.Options{{Addr: s.Socket()}, {Addr: s.Socket(), Network: "unix"}} {
		n, err := New(opt)
		n = closing(t, n, err)
		require.NoError(t, n.Probe(t.Context()))
	}
}

func TestAllowEviction(t *testing.T) {
	s := start(t, redisproc.WithArgs("--maxmemory-policy", "volatile-lru"))
	s.Config("maxmemory", "100mb")
	n, err := New(&redis.Options{Addr: s.Addr()})
	err = closing(t, n, err).Probe(t.Context())
	require.ErrorIs(t, err, node.ErrMisconfigured)
	require.ErrorContains(t, err, "AllowEviction")
	n, err = NewUniversal(&redis.UniversalOptions{Addrs: []string{s.Addr()}}, AllowEviction())
	require.NoError(t, closing(t, n, err).Probe(t.Context()))
	assert.Contains(t, n.Eviction(), "maxmemory-policy is volatile-lru")
	hold(t, client(t, n), "a")
}

func TestAllowUnseenLosses(t *testing.T) {
	s := redisproc.Start(t, redisproc.WithArgs("--rename-command", "INFO", ""))
	n, err := New(&redis.Options{Addr: s.Addr()})
	require.ErrorContains(t, closing(t, n, err).Probe(t.Context()), "AllowUnseenLosses")
	n, err = New(&redis.Options{Addr: s.Addr()}, AllowUnseenLosses())
	require.NoError(t, closing(t, n, err).Probe(t.Context()))
	assert.Contains(t, n.Unseen(), "it refuses INFO in scripts")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := start(t, redisproc.WithTLS())
	opt := &redis.Options{Addr: s.TLSAddr(), TLSConfig: &tls.Config{RootCAs: s.CertPool(), MinVersion: tls.VersionTLS12}}
	n, err := New(opt)
	one := client(t, closing(t, n, err))
	n, err = New(opt)
	other := client(t, closing(t, n, err))
	handOn(t, s, one, other, "secured")

	// Without the roots, the node does not trust the server.
	n, err = New(&redis.Options{Addr: s.TLSAddr(), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	n = closing(t, n, err)
	var unknown *tls.CertificateVerificationError
	require.ErrorAs(t, n.Probe(t.Context()), &unknown)
}

// A dialer makes all connections, and takes care of TLS itself, as it does for go-redis.
func TestDialer(t *testing.T) {
	t.Parallel()
	s := start(t, redisproc.WithTLS())
	var dialled atomic.Int32
	opt := &redis.Options{
		Addr: "locks.internal:6379",
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled.Add(1)
			if _, bounded := ctx.Deadline(); !bounded || network != "tcp" || addr != "locks.internal:6379" {
				return nil, errors.New("dialled wrongly: " + network + " " + addr)
			}
			return (&tls.Dialer{Config: &tls.Config{RootCAs: s.CertPool(), MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", s.TLSAddr())
		},
	}
	n, err := New(opt)
	one := client(t, closing(t, n, err))
	n, err = New(opt)
	other := client(t, closing(t, n, err))
	handOn(t, s, one, other, "dialled")
	assert.GreaterOrEqual(t, dialled.Load(), int32(2))

	// A dialer that hangs is bounded by the DialTimeout.
	n, err = New(&redis.Options{DialTimeout: 50 * time.Millisecond, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	n = closing(t, n, err)
	require.ErrorIs(t, n.Probe(t.Context()), node.ErrTimeout)
}

func TestFailover(t *testing.T) {
	t.Parallel()
	s := start(t, redisproc.WithACL("user locker on >secret ~* &* +@all"))
	sentinel := redisproc.StartSentinel(t, "mymaster", s, redisproc.WithPassword("s3nt1nel"))
	opt := &redis.FailoverOptions{
		MasterName: "mymaster", SentinelAddrs: []string{sentinel.Addr()}, SentinelPassword: "s3nt1nel",
		CredentialsProvider: func() (string, string) { return "locker", "secret" },
	}
	n, err := NewFailover(opt)
	n = closing(t, n, err)
	assert.Equal(t, "mymaster@"+sentinel.Addr(), n.Name())
	n2, err := NewUniversal(&redis.UniversalOptions{
		MasterName: "mymaster", Addrs: opt.SentinelAddrs, SentinelPassword: "s3nt1nel", Username: "locker", Password: "secret",
	})
	n2 = closing(t, n2, err)
	handOn(t, s, client(t, n), client(t, n2), "watched")
	list, err := s.Command("CLIENT", "LIST")
	require.NoError(t, err)
	assert.Contains(t, list, "user=locker")
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redisproc.StartCluster(t, redisproc.WithPatience())
	marker := wire.MarkerKey("ql")
	opt := &redis.ClusterOptions{Addrs: []string{c.OtherMaster(marker).Addr()}}
	n, err := NewCluster(opt, "ql")
	n = closing(t, n, err)
	n2, err := NewCluster(opt, "ql")
	n2 = closing(t, n2, err)
	assert.Equal(t, "{ql}@"+opt.Addrs[0], n.Name())
	one, other := client(t, n), client(t, n2)
	_, err = admin.Init(t.Context(), quorumlock.Config{Nodes: []node.Node{n}})
	require.NoError(t, err)
	handOn(t, c.Owner(marker), one, other, "one of a cluster")
	assert.Equal(t, c.Owner(marker).Addr(), n.(wire.Located).Address())
}

func TestNodes(t *testing.T) {
	t.Parallel()
	var opts []*redis.Options
	for range 3 {
		opts = append(opts, &redis.Options{Addr: start(t).Addr()})
	}
	nodes, err := Nodes(opts...)
	require.NoError(t, err)
	for _, n := range nodes {
		t.Cleanup(func() { assert.NoError(t, n.Close()) })
	}
	c := client(t, nodes...)
	lease := hold(t, c, "three")
	require.NoError(t, lease.Err())

	_, err = Nodes(opts[0], nil)
	require.ErrorContains(t, err, "options 2")
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	hook := func(context.Context, *redis.Conn) error { return nil }
	sentinels := []string{"a:26379"}
	for what, ask := range map[string]func() (node.Node, error){
		"OnConnect": func() (node.Node, error) { return New(&redis.Options{OnConnect: hook}) },
		"OnConnect of a failover client": func() (node.Node, error) {
			return NewFailover(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: sentinels, OnConnect: hook})
		},
		"ReplicaOnly": func() (node.Node, error) {
			return NewFailover(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: sentinels, ReplicaOnly: true})
		},
		"Redis Cluster": func() (node.Node, error) { return NewUniversal(&redis.UniversalOptions{Addrs: []string{"a:1", "b:2"}}) },
		"NewCluster": func() (node.Node, error) {
			return NewUniversal(&redis.UniversalOptions{Addrs: []string{"a:1"}, IsClusterMode: true})
		},
		"RouteRandomly": func() (node.Node, error) {
			return NewCluster(&redis.ClusterOptions{Addrs: []string{"a:1"}, RouteRandomly: true}, "ql")
		},
		"ClusterSlots": func() (node.Node, error) {
			return NewCluster(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return nil, nil }}, "ql")
		},
		// The options of such a client reach the master of the moment, and do not follow a failover.
		"NewFailover": func() (node.Node, error) {
			c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}})
			defer func() { _ = c.Close() }()
			return New(c.Options())
		},
		"not the address of a server": func() (node.Node, error) { return New(&redis.Options{Addr: "a"}) },
		`"b"`: func() (node.Node, error) {
			return NewFailover(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1", "b"}})
		},
		"ReadOnly": func() (node.Node, error) { return NewUniversal(&redis.UniversalOptions{ReadOnly: true}) },
	} {
		n, err := ask()
		assert.Nil(t, n)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, strings.Split(what, " of ")[0])
	}
	for what, ask := range map[string]func() (node.Node, error){
		"nil":                         func() (node.Node, error) { return New(nil) },
		"are nil":                     func() (node.Node, error) { return NewFailover(nil) },
		"options":                     func() (node.Node, error) { return NewUniversal(nil) },
		"the options are nil":         func() (node.Node, error) { return NewCluster(nil, "ql") },
		"the tag is empty":            func() (node.Node, error) { return NewCluster(&redis.ClusterOptions{Addrs: []string{"a:1"}}, "") },
		"the tag of a cluster's slot": func() (node.Node, error) { return NewCluster(&redis.ClusterOptions{Addrs: []string{"a:1"}}, "{ql}") },
		"MasterName":                  func() (node.Node, error) { return NewFailover(&redis.FailoverOptions{SentinelAddrs: sentinels}) },
		"SentinelAddrs":               func() (node.Node, error) { return NewFailover(&redis.FailoverOptions{MasterName: "m"}) },
	} {
		_, err := ask()
		require.ErrorContains(t, err, what)
	}
}
