package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// Etcd is the name of the peer that needs an etcd instead of redis-servers.
const Etcd = "etcd"

var etcdMutex = Peer{
	Name: Etcd, Kind: Apart, Waits: true, Renews: true,
	About: "etcd's concurrency.Mutex on a single etcd, which writes to disk: another kind of system, with other promises.",
	Open: func(ctx context.Context, o Options) (Client, error) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: o.Addresses, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
		})
		if err != nil {
			return nil, err
		}
		c := &etcdClient{client: client, ttl: max(1, int(o.TTL.Seconds()))}
		if o.Contenders == 0 {
			c.shared, err = c.newSession(context.WithoutCancel(ctx))
		}
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return c, nil
	},
}

// etcdClient is one connection. Mutexes of one session do not exclude each other. So each contended mutex has a
// session of its own.
type etcdClient struct {
	client *clientv3.Client
	ttl    int
	shared *concurrency.Session

	mu  sync.Mutex
	own []*concurrency.Session
}

func (c *etcdClient) newSession(ctx context.Context) (*concurrency.Session, error) {
	return concurrency.NewSession(c.client, concurrency.WithTTL(c.ttl), concurrency.WithContext(ctx))
}

func (c *etcdClient) Lock(name string, _ int) Lock { return &etcdLock{client: c, name: name} }

func (c *etcdClient) Close(context.Context) error {
	var errs []error
	for _, s := range c.own {
		errs = append(errs, s.Close())
	}
	if c.shared != nil {
		errs = append(errs, c.shared.Close())
	}
	return errors.Join(append(errs, c.client.Close())...)
}

type etcdLock struct {
	client *etcdClient
	name   string
	mutex  *concurrency.Mutex
}

func (l *etcdLock) Acquire(ctx context.Context) error {
	if l.mutex == nil {
		session, err := l.client.sessionOf(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		l.mutex = concurrency.NewMutex(session, "/"+l.name)
	}
	return l.mutex.Lock(ctx)
}

func (l *etcdLock) Release(ctx context.Context) error { return l.mutex.Unlock(ctx) }

// sessionOf returns the session for the next lock.
func (c *etcdClient) sessionOf(ctx context.Context) (*concurrency.Session, error) {
	if c.shared != nil {
		return c.shared, nil
	}
	s, err := c.newSession(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = append(c.own, s)
	return s, nil
}
