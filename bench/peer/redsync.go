package peer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

var (
	redsyncGo = redsyncPeer("redsync", false, goRedisPools,
		"redsync v4 on go-redis, with its defaults.")
	redsyncGoFailFast = redsyncPeer("redsync-failfast", true, goRedisPools,
		"redsync v4 on go-redis, WithFailFast: it returns when the outcome is certain.")
	redsyncRueidis = redsyncPeer("redsync-rueidis", false, rueidisPools,
		"redsync v4 on rueidis, with its defaults.")
	redsyncRueidisFailFast = redsyncPeer("redsync-rueidis-failfast", true, rueidisPools,
		"redsync v4 on rueidis, WithFailFast.")
)

func redsyncPeer(name string, failFast bool, pools poolMaker, about string) Peer {
	return Peer{
		Name: name, Kind: Other, Waits: true, About: about,
		Plain: []string{"set"}, // SET NX; its scripts use none
		Open: func(_ context.Context, o Options) (Client, error) {
			made, closing, err := pools(o.Addresses)
			if err != nil {
				return nil, err
			}
			opts := []redsync.Option{redsync.WithExpiry(o.TTL), redsync.WithFailFast(failFast)}
			if o.Contenders > 0 {
				opts = append(opts, redsync.WithTries(math.MaxInt), redsync.WithRetryDelayFunc(retryDelay(o.Contenders)))
			}
			return &redsyncClient{sync: redsync.New(made...), opts: opts, closing: closing}, nil
		},
	}
}

// retryDelay returns the default, 50 to 250 ms, or less where few contenders leave the lock free most of the time.
// These delays gave redsync its highest rate in trials. With shorter ones, many contenders split the votes.
func retryDelay(contenders int) redsync.DelayFunc {
	const usual, each = 150 * time.Millisecond, 2500 * time.Microsecond
	mean := min(usual, time.Duration(contenders)*each)
	return func(int) time.Duration { return mean/3 + rand.N(mean*4/3) }
}

// poolMaker connects to the nodes, and returns a function that closes the connections.
type poolMaker func(addresses []string) (pools []redis.Pool, closing func() error, err error)

func goRedisPools(addresses []string) (pools []redis.Pool, closing func() error, err error) {
	var clients []*goredis.Client
	for _, address := range addresses {
		client := goredis.NewClient(&goredis.Options{Addr: address})
		clients = append(clients, client)
		pools = append(pools, goredispool.NewPool(client))
	}
	return pools, func() error {
		var errs []error
		for _, client := range clients {
			errs = append(errs, client.Close())
		}
		return errors.Join(errs...)
	}, nil
}

func rueidisPools(addresses []string) (pools []redis.Pool, closing func() error, err error) {
	var clients []rueidis.Client
	closing = func() error {
		closeAll(clients)
		return nil
	}
	for _, address := range addresses {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true,
		})
		if err != nil {
			return nil, nil, errors.Join(err, closing())
		}
		clients = append(clients, client)
		pools = append(pools, rueidispool.NewPool(rueidiscompat.NewAdapter(client)))
	}
	return pools, closing, nil
}

type redsyncClient struct {
	sync    *redsync.Redsync
	opts    []redsync.Option
	closing func() error
}

func (c *redsyncClient) Lock(name string, _ int) Lock {
	return &redsyncLock{mutex: c.sync.NewMutex(name, c.opts...)}
}

func (c *redsyncClient) Close(context.Context) error { return c.closing() }

type redsyncLock struct{ mutex *redsync.Mutex }

func (l *redsyncLock) Acquire(ctx context.Context) error { return l.mutex.LockContext(ctx) }

func (l *redsyncLock) Release(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}
