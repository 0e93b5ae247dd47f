package control

import (
	"context"

	"github.com/quorumlock/quorumlock/faultinject"
)

// ShardDriver is a [Driver] of one slot of a Redis Cluster, with the methods of [faultinject.Shard].
type ShardDriver interface {
	Driver
	Tag() string
	Addresses() []string
	Failover(ctx context.Context) error
	Move(ctx context.Context) error
	Isolate(ctx context.Context) error
	Rejoin(ctx context.Context) error
}

type shard struct {
	*server
	driver    ShardDriver
	addresses []string
}

var _ faultinject.Shard = shard{}

// NewShard returns a server that is one slot of a cluster. If there is an error, NewShard closes the driver.
func NewShard(kind, name string, driver ShardDriver) (faultinject.Server, error) {
	addresses := driver.Addresses()
	s, err := newServer(kind, name, driver, addresses...)
	if err != nil {
		return nil, err
	}
	return shard{server: s, driver: driver, addresses: addresses}, nil
}

func (s shard) Tag() string { return s.driver.Tag() }

func (s shard) Routes() map[string]string {
	routes := make(map[string]string, len(s.addresses))
	for i, addr := range s.addresses {
		routes[addr] = s.proxies[i].Addr()
	}
	return routes
}

func (s shard) Failover(ctx context.Context) error { return s.do(ctx, "failover", s.driver.Failover) }

func (s shard) Move(ctx context.Context) error { return s.do(ctx, "move", s.driver.Move) }

func (s shard) Isolate(ctx context.Context) error { return s.do(ctx, "isolate", s.driver.Isolate) }

func (s shard) Rejoin(ctx context.Context) error { return s.do(ctx, "rejoin", s.driver.Rejoin) }
