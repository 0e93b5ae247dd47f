package peer

import (
	"context"
	"log/slog"

	"github.com/quorumlock/quorumlock"
)

var (
	redlock = Peer{
		Name: "redlock", Kind: Ours, Waits: true, Renews: true, Marked: true,
		About: "This library: a majority of the nodes, turns in queues on the nodes, leases handed over within a client. Marker, fence and tokens are on.",
		Open:  opener((*quorumlock.Client).RedLock, nil),
	}
	multilock = Peer{
		Name: "multilock", Kind: Ours, Waits: true, Renews: true, Marked: true,
		About: "This library's MultiLock: all nodes have to agree.",
		Open: opener(func(c *quorumlock.Client, name string) *quorumlock.Lock {
			return c.MultiLock(name)
		}, nil),
	}
	fair = Peer{
		Name: "fair", Kind: Ours, Waits: true, Renews: true, Marked: true,
		About: "This library, every waiter served in the order in which it came.",
		Open: opener((*quorumlock.Client).RedLock, func(c *quorumlock.Config) {
			c.Waiting = quorumlock.WaitFair
		}),
	}
	noHandover = Peer{
		Name: "nohandover", Kind: Ours, Waits: true, Renews: true, Marked: true,
		About: "This library, with each lease given back to the nodes, and none handed over within a client.",
		Open: opener((*quorumlock.Client).RedLock, func(c *quorumlock.Config) {
			c.Handover.Off = true
		}),
	}
)

// describe makes the description of a lock.
type describe func(c *quorumlock.Client, name string) *quorumlock.Lock

func opener(lock describe, configure func(*quorumlock.Config)) func(context.Context, Options) (Client, error) {
	return func(_ context.Context, o Options) (Client, error) {
		cfg := Config(o)
		if configure != nil {
			configure(&cfg)
		}
		client, err := quorumlock.New(cfg)
		if err != nil {
			return nil, err
		}
		return &ours{client: client, describe: lock}, nil
	}
}

// Config is how this library's clients are configured, for whoever opens the nodes too.
func Config(o Options) quorumlock.Config {
	cfg := quorumlock.Config{
		Addresses: o.Addresses,
		TTL:       o.TTL,
		MaxTTL:    o.TTL,
		Logger:    slog.New(slog.DiscardHandler),
	}
	if o.Renewed != nil {
		cfg.Hooks.Renewed = func(quorumlock.RenewedEvent) { o.Renewed() }
	}
	return cfg
}

type ours struct {
	client   *quorumlock.Client
	describe describe
}

func (o *ours) Lock(name string) Lock { return &oursLock{lock: o.describe(o.client, name)} }

func (o *ours) Close(ctx context.Context) error { return o.client.Close(ctx) }

type oursLock struct {
	lock  *quorumlock.Lock
	lease *quorumlock.Lease
}

func (l *oursLock) Acquire(ctx context.Context) (err error) {
	l.lease, err = l.lock.Acquire(ctx)
	return err
}

func (l *oursLock) Release(ctx context.Context) error {
	lease := l.lease
	l.lease = nil
	return lease.Release(ctx)
}

func (l *oursLock) Valid() bool { return l.lease != nil && l.lease.Err() == nil }
