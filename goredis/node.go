package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/node"
)

// defaultDialTimeout is go-redis' default of DialTimeout.
const defaultDialTimeout = 5 * time.Second

// Option is a setting that go-redis does not have, and so its options have no field for it. A
// second struct of options would be empty in nearly every call.
type Option func(*settings)

// AllowEviction accepts a server that may evict locks, for locks that only save work: see [node.Options].
func AllowEviction() Option { return func(s *settings) { s.allowEviction = true } }

// AllowUnseenLosses accepts a server that cannot tell that it has lost its memory, likewise.
func AllowUnseenLosses() Option { return func(s *settings) { s.allowUnseenLosses = true } }

// New makes a node from the options of [redis.NewClient]. It must be closed, as any node: Close also ends the subscription
// to a StreamingCredentialsProvider. New does not connect. It does not change the options, and
// later changes to them have no effect.
func New(opt *redis.Options, more ...Option) (node.Node, error) {
	if opt == nil {
		return nil, errors.New("goredis: the options are nil")
	}
	s := settings{Options: *opt, addresses: []string{cmp.Or(opt.Addr, "localhost:6379")}}
	if s.Network == "" && strings.HasPrefix(s.addresses[0], "/") {
		s.Network = "unix"
	}
	return s.node(more)
}

// NewFailover makes a node from the options of [redis.NewFailoverClient]: the master that Sentinels know by a name.
// It is one node, however many Sentinels and replicas there are. The rest is as for [New].
func NewFailover(opt *redis.FailoverOptions, more ...Option) (node.Node, error) {
	switch {
	case opt == nil:
		return nil, errors.New("goredis: the options are nil")
	case opt.MasterName == "":
		return nil, errors.New("goredis: MasterName is empty")
	case len(opt.SentinelAddrs) == 0:
		return nil, errors.New("goredis: SentinelAddrs is empty")
	case opt.ReplicaOnly || opt.RouteByLatency || opt.RouteRandomly:
		return nil, unsupported("ReplicaOnly, RouteByLatency and RouteRandomly: a lock cannot be held on replicas")
	}
	s := settings{
		Options: redis.Options{
			TLSConfig: opt.TLSConfig, Dialer: opt.Dialer, DialTimeout: opt.DialTimeout,
			Protocol: opt.Protocol, DB: opt.DB, ClientName: opt.ClientName, OnConnect: opt.OnConnect,
			Username: opt.Username, Password: opt.Password, CredentialsProvider: opt.CredentialsProvider,
			CredentialsProviderContext: opt.CredentialsProviderContext, StreamingCredentialsProvider: opt.StreamingCredentialsProvider,
		},
		addresses: opt.SentinelAddrs,
		sentinel: rueidis.SentinelOption{
			MasterSet: opt.MasterName, Username: opt.SentinelUsername, Password: opt.SentinelPassword,
		},
	}
	return s.node(more)
}

// NewCluster makes a node from the options of [redis.NewClusterClient]: the slot of the cluster for the hash tag
// {tag}. It is one node, however many servers the cluster has. The names of all locks then begin with {tag}: on the
// servers, which the client adds. See [node.Options], and docs/servers.md for what the cluster needs. The rest is as
// for [New].
func NewCluster(opt *redis.ClusterOptions, tag string, more ...Option) (node.Node, error) {
	switch {
	case opt == nil:
		return nil, errors.New("goredis: the options are nil")
	case tag == "":
		return nil, errors.New("goredis: the tag is empty")
	case opt.ReadOnly || opt.RouteByLatency || opt.RouteRandomly:
		return nil, unsupported("ReadOnly, RouteByLatency and RouteRandomly: a lock cannot be held on replicas")
	case opt.ClusterSlots != nil || opt.NewClient != nil:
		return nil, unsupported("ClusterSlots and NewClient: the servers tell which of them serves the slot, and a node makes its own connection")
	}
	s := settings{
		Options: redis.Options{
			TLSConfig: opt.TLSConfig, Dialer: opt.Dialer, DialTimeout: opt.DialTimeout,
			Protocol: opt.Protocol, ClientName: opt.ClientName, OnConnect: opt.OnConnect,
			Username: opt.Username, Password: opt.Password, CredentialsProvider: opt.CredentialsProvider,
			CredentialsProviderContext: opt.CredentialsProviderContext, StreamingCredentialsProvider: opt.StreamingCredentialsProvider,
		},
		addresses: opt.Addrs,
		tag:       tag,
	}
	return s.node(more)
}

// NewUniversal makes a node from the options of [redis.NewUniversalClient], which lead to one server or to a master
// behind Sentinel. Options that lead to a Redis Cluster are unsupported: use [NewCluster], which needs a tag.
func NewUniversal(opt *redis.UniversalOptions, more ...Option) (node.Node, error) {
	switch {
	case opt == nil:
		return nil, errors.New("goredis: the options are nil")
	case opt.IsClusterMode, opt.MasterName == "" && len(opt.Addrs) > 1:
		return nil, unsupported("a Redis Cluster without a tag: use NewCluster for one slot of it, or independent servers, and make a node of each")
	case opt.ReadOnly || opt.RouteByLatency || opt.RouteRandomly:
		return nil, unsupported("ReadOnly, RouteByLatency and RouteRandomly: a lock cannot be held on replicas")
	}
	own := *opt // Failover would set its Addrs
	if opt.MasterName != "" {
		return NewFailover(own.Failover(), more...)
	}
	return New(own.Simple(), more...)
}

// Nodes makes a node from each of the options, for Config.Nodes. The caller closes them.
func Nodes(opts ...*redis.Options) ([]node.Node, error) {
	nodes := make([]node.Node, len(opts))
	for i, opt := range opts {
		n, err := New(opt)
		if err != nil {
			return nil, fmt.Errorf("options %d: %w", i+1, err) // a node that was not used needs no Close
		}
		nodes[i] = n
	}
	return nodes, nil
}

func unsupported(what string) error {
	return fmt.Errorf("goredis: %w: %s", errors.ErrUnsupported, what)
}

// settings are the options of a node. redis.Options has the fields that failover and cluster options repeat.
type settings struct {
	redis.Options
	addresses                        []string
	sentinel                         rueidis.SentinelOption
	tag                              string
	allowEviction, allowUnseenLosses bool
}

func (s *settings) node(more []Option) (node.Node, error) {
	for _, set := range more {
		set(s)
	}
	if s.OnConnect != nil {
		return nil, unsupported("OnConnect: a node has no connection of go-redis to call it with")
	}
	for _, address := range s.addresses {
		if _, port, err := net.SplitHostPort(address); s.Network != "unix" && (err != nil || port == "") {
			return nil, unsupported(fmt.Sprintf("%q is not the address of a server, host:port: the options of a client of NewFailoverClient do not name the Sentinels, so use NewFailover", address))
		}
	}
	c := &credentials{
		user: s.Username, password: s.Password, call: s.CredentialsProvider,
		callContext: s.CredentialsProviderContext, stream: s.StreamingCredentialsProvider,
		timeout: cmp.Or(s.DialTimeout, defaultDialTimeout),
	}
	opt := rueidis.ClientOption{
		InitAddress: slices.Clone(s.addresses),
		Dialer:      net.Dialer{Timeout: c.timeout},
		DialCtxFn:   s.dialer(),
		TLSConfig:   s.TLSConfig.Clone(),
		Username:    sentUser(c.user, c.password),
		Password:    c.password,
		SelectDB:    max(s.DB, 0),
		ClientName:  s.ClientName,
		AlwaysRESP2: s.Protocol == 2,
		Sentinel:    s.sentinel,
	}
	opt.Sentinel.Username = sentUser(s.sentinel.Username, s.sentinel.Password)
	opt.Sentinel.ClientName = s.ClientName
	opt.Sentinel.TLSConfig = opt.TLSConfig
	if c.change() {
		opt.AuthCredentialsFn = c.forRueidis
	}
	n, err := node.New(node.Options{
		Rueidis: func(c *rueidis.ClientOption) { *c = opt }, Tag: s.tag, OnClose: c.close,
		AllowEviction: s.allowEviction, AllowUnseenLosses: s.allowUnseenLosses,
	})
	if err != nil {
		return nil, fmt.Errorf("goredis: %s", strings.TrimPrefix(err.Error(), "node: "))
	}
	return n, nil
}

// sentUser returns the user to authenticate as. As go-redis does, a node sends no user without a password.
func sentUser(user, password string) string {
	if password == "" {
		return ""
	}
	return user
}

// dialer returns the dialler of the options. As in go-redis, a Dialer that is set takes care of TLS itself.
func (s *settings) dialer() func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	network, dial := cmp.Or(s.Network, "tcp"), s.Dialer
	if dial == nil {
		return func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			if cfg == nil {
				return d.DialContext(ctx, network, addr)
			}
			return (&tls.Dialer{NetDialer: d, Config: cfg}).DialContext(ctx, network, addr)
		}
	}
	return func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		return dial(ctx, network, addr)
	}
}
