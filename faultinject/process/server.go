package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const replyTimeout = 5 * time.Second

var errClosed = errors.New("the server is closed")

// server is one redis-server process.
type server struct {
	name  string
	redis *redisproc.Server
	proxy *faultinject.Proxy
	clock string // why it cannot be stepped, empty if it can

	mu     sync.Mutex
	closed bool
}

var _ faultinject.Server = (*server)(nil)

// start starts a server and waits for its answer. The page cache outlives the process, so appended data survives
// without a sync.
func start(ctx context.Context, name string, conf config) (*server, error) {
	s := &server{name: name}
	opts := []redisproc.Option{redisproc.WithArgs(
		"--appendonly", "yes", "--appendfsync", "no", "--maxmemory-policy", "noeviction",
	)}
	if s.clock = trueClock(conf); s.clock == "" {
		opts = append(opts, redisproc.WithFaketime())
	}
	var err error
	if s.redis, err = redisproc.TryLaunch(ctx, opts...); err != nil {
		return nil, s.failed("start", err)
	}
	if s.proxy, err = faultinject.NewProxy(s.redis.Addr()); err != nil {
		return nil, s.failed("start", errors.Join(err, s.redis.TryClose()))
	}
	return s, nil
}

// trueClock returns why the server runs with the true clock, empty if it does not.
func trueClock(conf config) string {
	if conf.trueClock {
		return "the server was started with the true clock"
	}
	if _, err := redisproc.FindFaketime(); err != nil {
		return err.Error()
	}
	return ""
}

func (s *server) Name() string { return s.name }

func (s *server) Addr() string { return s.proxy.Addr() }

func (s *server) Command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	text, err := s.redis.Do(ctx, args...)
	return text, s.failed("command "+strings.Join(args, " "), err)
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, replyTimeout)
}

func (s *server) Start(ctx context.Context) error {
	return s.do("start", func() error { return s.redis.TryStart(ctx) })
}

func (s *server) Kill(context.Context) error {
	return s.do("kill", func() error { s.redis.Kill(); return nil })
}

func (s *server) Stop(ctx context.Context) error {
	return s.do("stop", func() error { return s.redis.TryStop(ctx) })
}

func (s *server) Wipe(context.Context) error {
	return s.do("wipe", s.redis.TryWipe)
}

func (s *server) Lose(ctx context.Context, while time.Duration) error {
	return s.do("lose", func() error { return s.redis.TryLose(ctx, while) })
}

func (s *server) Pause(context.Context) error {
	return s.do("pause", s.redis.TryPause)
}

func (s *server) Resume(context.Context) error {
	return s.do("resume", s.redis.TryResume)
}

func (s *server) CutOff(context.Context) error {
	return s.do("cut off", func() error { s.proxy.Cut(faultinject.BothWays); return nil })
}

func (s *server) Heal(context.Context) error {
	return s.do("heal", func() error { s.proxy.Uncut(faultinject.BothWays); return nil })
}

func (s *server) StepClock(ctx context.Context, offset time.Duration) error {
	return s.do("step the clock", func() error {
		if s.clock != "" {
			return fmt.Errorf("%w: %s", errors.ErrUnsupported, s.clock)
		}
		return s.redis.TrySetClock(ctx, offset)
	})
}

func (s *server) SetMaxMemory(ctx context.Context, limit int64) error {
	return s.do("set maxmemory", func() error {
		ctx, cancel := bounded(ctx)
		defer cancel()
		return s.redis.TrySetMaxMemory(ctx, limit)
	})
}

func (s *server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.failed("close", errors.Join(s.proxy.Close(), s.redis.TryClose()))
}

// do runs one change at a time.
func (s *server) do(action string, change func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.failed(action, errClosed)
	}
	return s.failed(action, change())
}

func (s *server) failed(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("faultinject: process %s: %s: %w", s.name, action, err)
}
