package peer

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

var redislockOne = Peer{
	Name: "redislock-1node", Kind: Other, Waits: true, Most: 1,
	About: "bsm/redislock: a lock on one node, which is lost with that node. It is here for comparison only.",
	Open: func(_ context.Context, o Options) (Client, error) {
		rdb := redis.NewClient(&redis.Options{Addr: o.Addresses[0]})
		c := &redislockClient{rdb: rdb, locks: redislock.New(rdb), ttl: o.TTL}
		if o.Contenders > 0 {
			backoff := min(100*time.Millisecond, time.Duration(o.Contenders)*500*time.Microsecond)
			c.options = &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)}
		}
		return c, nil
	},
}

type redislockClient struct {
	rdb     *redis.Client
	locks   *redislock.Client
	ttl     time.Duration
	options *redislock.Options
}

func (c *redislockClient) Lock(name string) Lock { return &redislockLock{client: c, name: name} }

func (c *redislockClient) Close(context.Context) error { return c.rdb.Close() }

type redislockLock struct {
	client *redislockClient
	name   string
	lock   *redislock.Lock
}

// Acquire repeats the attempt until ctx ends, because the library gives up after a TTL.
func (l *redislockLock) Acquire(ctx context.Context) (err error) {
	for {
		l.lock, err = l.client.locks.Obtain(ctx, l.name, l.client.ttl, l.client.options)
		if err == nil || l.client.options == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (l *redislockLock) Release(ctx context.Context) error { return l.lock.Release(ctx) }
