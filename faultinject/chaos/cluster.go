package chaos

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
)

// A node may be a slot of a cluster: a faultinject.Shard. Its servers name each other by their own addresses. A client
// dials the proxy of the address instead.

// addressOf returns the address of a node without proxies of a client.
func addressOf(s faultinject.Server) string {
	shard, ok := s.(faultinject.Shard)
	if !ok {
		return s.Addr()
	}
	addrs := slices.Sorted(maps.Keys(shard.Routes()))
	return "redis://" + addrs[0] + "?tag=" + shard.Tag() + "&addr=" + strings.Join(addrs[1:], "&addr=")
}

// reach gives a client the address of a node, and puts the proxies of a path before it.
func (s *settings) reach(server faultinject.Server, w *path) error {
	shard, ok := server.(faultinject.Shard)
	if !ok && !s.Alike {
		addr, err := w.lead(server.Addr())
		s.Nodes = append(s.Nodes, addr)
		return err
	}
	s.Nodes = append(s.Nodes, addressOf(server))
	if s.Routes == nil {
		s.Routes = make(map[string]string)
	}
	routes := map[string]string{server.Addr(): server.Addr()}
	if ok {
		routes = shard.Routes()
	}
	for own, front := range routes {
		var err error
		if s.Routes[own], err = w.lead(front); err != nil {
			return err
		}
	}
	return nil
}

// withNodes makes the nodes of a client, if it dials other addresses than it lists. Otherwise the client makes them.
func (s settings) withNodes(cfg quorumlock.Config) (with quorumlock.Config, closeNodes func(), err error) {
	with, closeNodes = cfg, func() {
		for _, n := range with.Nodes {
			_ = n.Close()
		}
	}
	if len(s.Routes) == 0 {
		return with, closeNodes, nil
	}
	for _, address := range with.Addresses {
		n, err := s.open(address)
		if err != nil {
			return with, closeNodes, err
		}
		with.Nodes = append(with.Nodes, n)
	}
	with.Addresses = nil
	return with, closeNodes, nil
}

// open makes a node that dials proxies. It has the timeouts that a client would set.
func (s settings) open(address string) (node.Node, error) {
	opt, err := node.ParseOptions(address)
	if err != nil {
		return nil, err
	}
	opt.Timeout, opt.ConnectTimeout = s.TTL/3, s.TTL/3
	opt.Rueidis = s.route
	return node.New(opt)
}

// route makes a node dial the proxies in front of the servers.
func (s settings) route(opt *rueidis.ClientOption) {
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if front, ok := s.Routes[addr]; ok {
			addr = front
		}
		return d.DialContext(ctx, "tcp", addr)
	}
}
