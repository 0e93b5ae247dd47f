package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

const (
	portAttempts = 10
	pollInterval = 5 * time.Millisecond
	startTimeout = time.Minute // many may start at once on a small machine
	closeTimeout = time.Minute
	replyTimeout = 5 * time.Second
)

var (
	errDown      = errors.New("the server is down")
	errRunning   = errors.New("the server is running")
	errClosed    = errors.New("the server is closed")
	errPortTaken = errors.New("the port is taken")
)

// server is one container. Wiping its data replaces the container.
type server struct {
	name   string
	group  *group
	client *docker.Client // of its own: it is not made for concurrent starts
	dir    string         // mounted as sharedDir
	proxy  *faultinject.Proxy
	calls  sync.WaitGroup // to the engine, in the background

	mu        sync.Mutex
	id        string // empty while there is none
	port      int    // published on loopback
	maxMemory int64
	closed    bool
}

var _ faultinject.Server = (*server)(nil)

// startServer starts a server that answers.
func (g *group) startServer(ctx context.Context, name string) (*server, error) {
	s := &server{name: name, group: g}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(s.failed("start", err), s.close(context.WithoutCancel(ctx)))
	}
	for range portAttempts {
		err := s.firstStart(ctx)
		if err == nil {
			return s, nil
		}
		// Another process may have taken the port since it was free.
		if !errors.Is(err, errPortTaken) {
			return nil, errors.Join(s.failed("start", err), s.close(context.WithoutCancel(ctx)))
		}
	}
	return nil, errors.Join(s.failed("start", errPortTaken), s.close(context.WithoutCancel(ctx)))
}

func (s *server) prepare() error {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return err
	}
	s.client = pool.Client
	s.dir, err = shareDir(s.group.faketime.library)
	return err
}

func (s *server) firstStart(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.remove(ctx); err != nil {
		return err
	}
	if s.port, err = redisproc.FreePort(); err != nil {
		return err
	}
	if err = s.writeConfig(); err != nil {
		return err
	}
	if err = s.start(ctx); err != nil {
		return err
	}
	s.proxy, err = faultinject.NewProxy(s.direct()) //nolint:contextcheck // the proxy outlives ctx
	return err
}

func (s *server) Name() string { return s.name }

func (s *server) Addr() string { return s.proxy.Addr() }

// direct is the server's own address, without the proxy.
func (s *server) direct() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) Command(ctx context.Context, args ...string) (string, error) {
	text, err := s.ask(ctx, args...)
	return text, s.failed("command "+strings.Join(args, " "), err)
}

func (s *server) ask(ctx context.Context, args ...string) (string, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, replyTimeout)
		defer cancel()
	}
	return redisproc.Exchange(ctx, "tcp", s.direct(), args...)
}

func (s *server) Start(ctx context.Context) error {
	return s.do("start", func() error {
		state, err := s.state(ctx)
		if err != nil || state.Paused {
			return err
		}
		if state.Running {
			return s.awaitAnswer(ctx) // a start that was given up may have gone on
		}
		return s.startAgain(ctx)
	})
}

// startAgain starts on the same port. Another process that took it meanwhile may free it again.
func (s *server) startAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.start(ctx)
		if !errors.Is(err, errPortTaken) || !wait(ctx, pollInterval) {
			return err
		}
	}
}

// start starts the container, creates it if necessary, and waits for an answer.
func (s *server) start(ctx context.Context) error {
	if err := s.create(ctx); err != nil {
		return err
	}
	if err := s.client.StartContainerWithContext(s.id, nil, ctx); err != nil {
		if isPortTaken(err) {
			err = fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	s.expire()
	if err := s.awaitAnswer(ctx); err != nil {
		return s.giveUp(ctx, err)
	}
	return nil
}

// giveUp ends a container that did not answer, and adds its log to the error.
func (s *server) giveUp(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	log, _ := logs(ctx, s.client, s.id)
	return errors.Join(fmt.Errorf("%w; its log:\n%s", err, log), s.signal(ctx, docker.SIGKILL))
}

func isPortTaken(err error) bool {
	return strings.Contains(err.Error(), "port is already allocated") || strings.Contains(err.Error(), "address already in use")
}

// awaitAnswer returns once the server has loaded its data.
func (s *server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := s.ask(ctx, "PING")
		if err == nil {
			return nil
		}
		state, stateErr := s.state(ctx)
		if stateErr == nil && !state.Running {
			return fmt.Errorf("it ended with code %d", state.ExitCode)
		}
		if !wait(ctx, pollInterval) {
			return fmt.Errorf("no answer: %w (%w)", err, ctx.Err())
		}
	}
}

func (s *server) Close() error { return s.close(context.Background()) }

func (s *server) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := s.remove(ctx); err != nil {
		return s.failed("close", err)
	}
	s.closed = true
	s.calls.Wait()
	var err error
	if s.proxy != nil {
		err = s.proxy.Close()
	}
	if s.client != nil {
		s.client.HTTPClient.CloseIdleConnections()
	}
	return s.failed("close", errors.Join(err, os.RemoveAll(s.dir)))
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
	return fmt.Errorf("faultinject: container %s: %s: %w", s.name, action, err)
}

// wait waits for d, and reports whether ctx lasted that long.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
