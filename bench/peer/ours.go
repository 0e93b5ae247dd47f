package peer

import (
	"context"
	"errors"
	"log/slog"

	"github.com/quorumlock/quorumlock"
)

var (
	// redlock has all that is on by default: marker, fence, tokens, queues, and hand-over within a client.
	redlock   = oursPeer("redlock", plain((*quorumlock.Client).RedLock), nil)
	multilock = oursPeer("multilock", plain(func(c *quorumlock.Client, name string) *quorumlock.Lock { return c.MultiLock(name) }), nil)
	// noHandover gives each lease back to the nodes, and hands none over within its client.
	noHandover = oursPeer("nohandover", plain((*quorumlock.Client).RedLock), func(c *quorumlock.Config) { c.Handover.Off = true })
)

// oursPeer returns this library as a peer, with locks of one kind.
func oursPeer(name string, kind kind, configure func(*quorumlock.Config)) Peer {
	return Peer{
		Name: name, Ours: true, Waits: true,
		Open: func(_ context.Context, o Options) (Client, error) {
			cfg := Config(o)
			if configure != nil {
				configure(&cfg)
			}
			client, err := quorumlock.New(cfg)
			if err != nil {
				return nil, err
			}
			return &ours{client: client, kind: kind}, nil
		},
	}
}

type kind func(c *quorumlock.Client, name string, caller int) Lock

// plain is the kind of a lock that needs only a name.
func plain(describe func(*quorumlock.Client, string) *quorumlock.Lock) kind {
	return func(c *quorumlock.Client, name string, _ int) Lock {
		lock := describe(c, name)
		return &oursLock{take: taking(lock.Acquire), try: taking(lock.TryAcquire)}
	}
}

// Config returns the configuration of this library's clients. The code that opens the nodes uses it too.
func Config(o Options) quorumlock.Config {
	cfg := quorumlock.Config{
		Addresses: o.Addresses,
		TTL:       o.TTL,
		MaxTTL:    o.TTL,
		Logger:    slog.New(slog.DiscardHandler),

		NodeTimeoutMax: o.NodeTimeout,
	}
	if o.Renewed != nil {
		cfg.Hooks.Renewed = func(quorumlock.RenewalEvent) { o.Renewed() }
	}
	return cfg
}

type ours struct {
	client *quorumlock.Client
	kind   kind
}

func (o *ours) Lock(name string, caller int) Lock { return o.kind(o.client, name, caller) }

func (o *ours) Close(ctx context.Context) error { return o.client.Close(ctx) }

// lease is the common part of all kinds of leases.
type lease interface {
	Err() error
	Release(ctx context.Context) error
}

// oursLock is a lock of any kind whose Acquire returns a lease.
type oursLock struct {
	take, try func(ctx context.Context) (lease, error)
	held      lease
}

func (l *oursLock) Acquire(ctx context.Context) (err error) {
	l.held, err = l.take(ctx)
	return err
}

// Try is only of kinds that have a function for it.
func (l *oursLock) Try(ctx context.Context) (denied bool, err error) {
	l.held, err = l.try(ctx)
	switch {
	case errors.Is(err, quorumlock.ErrHeld):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, l.Release(ctx)
}

func (l *oursLock) Release(ctx context.Context) error {
	held := l.held
	l.held = nil
	return held.Release(ctx)
}

func (l *oursLock) Valid() bool { return l.held != nil && l.held.Err() == nil }

// taking keeps a nil lease from becoming an interface that is not nil.
func taking[L lease](acquire func(context.Context) (L, error)) func(context.Context) (lease, error) {
	return func(ctx context.Context) (lease, error) {
		l, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
}
