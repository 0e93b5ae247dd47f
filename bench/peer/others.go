package peer

import (
	"context"
	"os/exec"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/bench/redisson"
)

var (
	redislockOne = Peer{
		Name: "redislock-1node", Waits: true, Most: 1,
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

	redissonRedLock   = redissonPeer("redisson-redlock", 0)
	redissonMultiLock = redissonPeer("redisson-multilock", 0)
	redissonOne       = redissonPeer("redisson-1node", 1)
)

type redislockClient struct {
	rdb     *redis.Client
	locks   *redislock.Client
	ttl     time.Duration
	options *redislock.Options
}

func (c *redislockClient) Lock(name string, _ int) Lock { return &redislockLock{client: c, name: name} }

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

// redissonPeer is a lock of Redisson. Its watchdog renews the lock, as this library does. Its callers are threads, and the
// compiler of Java has 3 seconds to warm up.
func redissonPeer(name string, most int) Peer {
	return Peer{
		Name: name, Waits: true, Most: most,
		Worker:    redissonWorker,
		Available: redisson.Available,
	}
}

func redissonWorker() (*exec.Cmd, error) {
	const most = 5 * time.Minute // the first time, when it is built
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	jar, err := redisson.Build(ctx)
	if err != nil {
		return nil, err
	}
	return redisson.Command(jar, "bench"), nil
}
