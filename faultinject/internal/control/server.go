// Package control makes a [faultinject.Server] of a [Driver], for each kind of server: it runs changes one after
// another, puts a proxy before the server to cut it off, and names server and action in errors.
package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
)

// Driver is what differs between kinds of servers. Its methods do the work of the methods of
// [faultinject.Server]. They are called one at a time, but Command at any time. A driver may be a
// [faultinject.Loser] besides.
type Driver interface {
	Command(ctx context.Context, args ...string) (string, error)
	Start(ctx context.Context) error
	Kill(ctx context.Context) error
	Stop(ctx context.Context) error
	Wipe(ctx context.Context) error
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	StepClock(ctx context.Context, offset time.Duration) error
	SetMaxMemory(ctx context.Context, limit int64) error
	Close() error
}

// Timeouts where the context has no deadline: of commands, and of changes, so that a hang names its server.
const (
	replyTimeout  = 5 * time.Second
	changeTimeout = 2 * time.Minute
)

var errClosed = errors.New("the server is closed")

type server struct {
	kind, name string
	driver     Driver
	// proxies are before the addresses of the driver, in their order.
	proxies []*faultinject.Proxy

	mu     sync.Mutex
	closed bool
}

// New returns a server that runs at addr. If there is an error, New closes the driver.
func New(kind, name, addr string, driver Driver) (faultinject.Server, error) {
	return newServer(kind, name, driver, addr)
}

// newServer returns a server with a proxy before each of its addresses.
func newServer(kind, name string, driver Driver, addrs ...string) (*server, error) {
	s := &server{kind: kind, name: name, driver: driver}
	for _, addr := range addrs {
		proxy, err := faultinject.NewProxy(addr)
		if err != nil {
			return nil, Failed(kind, name, "start", errors.Join(err, s.Close()))
		}
		s.proxies = append(s.proxies, proxy)
	}
	return s, nil
}

// Failed adds the server and the action to an error, unless it is nil.
func Failed(kind, name, action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("faultinject: %s %s: %s: %w", kind, name, action, err)
}

func (s *server) Name() string { return s.name }

func (s *server) Addr() string { return s.proxies[0].Addr() }

func (s *server) Command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := bounded(ctx, replyTimeout)
	defer cancel()
	text, err := s.driver.Command(ctx, args...)
	return text, Failed(s.kind, s.name, "command "+strings.Join(args, " "), err)
}

func bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, most)
}

func (s *server) Start(ctx context.Context) error { return s.do(ctx, "start", s.driver.Start) }

func (s *server) Kill(ctx context.Context) error { return s.do(ctx, "kill", s.driver.Kill) }

func (s *server) Stop(ctx context.Context) error { return s.do(ctx, "stop", s.driver.Stop) }

func (s *server) Wipe(ctx context.Context) error { return s.do(ctx, "wipe", s.driver.Wipe) }

func (s *server) Pause(ctx context.Context) error { return s.do(ctx, "pause", s.driver.Pause) }

func (s *server) Resume(ctx context.Context) error { return s.do(ctx, "resume", s.driver.Resume) }

func (s *server) Lose(ctx context.Context, while time.Duration) error {
	return s.do(ctx, "lose", func(ctx context.Context) error {
		if loser, ok := s.driver.(faultinject.Loser); ok {
			return loser.Lose(ctx, while)
		}
		return errors.ErrUnsupported
	})
}

func (s *server) CutOff(ctx context.Context) error {
	return s.do(ctx, "cut off", func(context.Context) error { return s.each((*faultinject.Proxy).Cut) })
}

func (s *server) Heal(ctx context.Context) error {
	return s.do(ctx, "heal", func(context.Context) error { return s.each((*faultinject.Proxy).Uncut) })
}

func (s *server) each(change func(*faultinject.Proxy, faultinject.Direction)) error {
	for _, proxy := range s.proxies {
		change(proxy, faultinject.BothWays)
	}
	return nil
}

func (s *server) StepClock(ctx context.Context, offset time.Duration) error {
	return s.do(ctx, "step the clock", func(ctx context.Context) error { return s.driver.StepClock(ctx, offset) })
}

func (s *server) SetMaxMemory(ctx context.Context, limit int64) error {
	ctx, cancel := bounded(ctx, replyTimeout)
	defer cancel()
	return s.do(ctx, "set maxmemory", func(ctx context.Context) error { return s.driver.SetMaxMemory(ctx, limit) })
}

func (s *server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if err := s.driver.Close(); err != nil {
		return Failed(s.kind, s.name, "close", err)
	}
	s.closed = true
	for _, proxy := range s.proxies {
		_ = proxy.Close() // its error is always nil
	}
	return nil
}

// do makes one change at a time.
func (s *server) do(ctx context.Context, action string, change func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errClosed
	if !s.closed {
		ctx, cancel := bounded(ctx, changeTimeout)
		defer cancel()
		err = change(ctx)
	}
	return Failed(s.kind, s.name, action, err)
}

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
	driver ShardDriver
}

var _ faultinject.Shard = shard{}

// NewShard returns a server that is one slot of a cluster. If there is an error, NewShard closes the driver.
func NewShard(kind, name string, driver ShardDriver) (faultinject.Server, error) {
	s, err := newServer(kind, name, driver, driver.Addresses()...)
	if err != nil {
		return nil, err
	}
	return shard{server: s, driver: driver}, nil
}

func (s shard) Tag() string { return s.driver.Tag() }

func (s shard) Routes() map[string]string {
	routes := make(map[string]string)
	for i, addr := range s.driver.Addresses() {
		routes[addr] = s.proxies[i].Addr()
	}
	return routes
}

func (s shard) Failover(ctx context.Context) error { return s.do(ctx, "failover", s.driver.Failover) }

func (s shard) Move(ctx context.Context) error { return s.do(ctx, "move", s.driver.Move) }

func (s shard) Isolate(ctx context.Context) error { return s.do(ctx, "isolate", s.driver.Isolate) }

func (s shard) Rejoin(ctx context.Context) error { return s.do(ctx, "rejoin", s.driver.Rejoin) }
