package redisproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	errPortTaken = errors.New("port taken")
	errClosed    = errors.New("closed")
	errNoTLS     = errors.New("the server was built without TLS")
)

// TryLaunch starts a server without a test around it, for benchmarks and programs; the caller must close it. It
// returns once the server answers. Use the methods that begin with Try, which do not panic.
func TryLaunch(ctx context.Context, opts ...Option) (*Server, error) {
	var conf config
	for _, o := range opts {
		o(&conf)
	}
	if err := conf.findProgram(); err != nil {
		return nil, err
	}
	preload, err := findFaketime(conf.faketime)
	if err != nil {
		return nil, err
	}
	dir, err := dataDir()
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	s := &Server{conf: conf, dir: dir, preload: preload, clock: conf.clock, master: conf.master, fail: panicf}
	if err := s.firstStart(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// TryLaunchN launches n servers in parallel, all with the same options. With an error, it returns those that have
// started.
func TryLaunchN(ctx context.Context, n int, opts ...Option) ([]*Server, error) {
	servers, errs := make([]*Server, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { servers[i], errs[i] = TryLaunch(ctx, opts...) })
	}
	wg.Wait()
	return slices.DeleteFunc(servers, func(s *Server) bool { return s == nil }), errors.Join(errs...)
}

func (s *Server) firstStart(ctx context.Context) error {
	if s.conf.tls {
		if err := writeCertificates(s.dir); err != nil {
			return fmt.Errorf("make certificates: %w", err)
		}
	}
	if m := s.conf.member; m != nil {
		if err := os.WriteFile(filepath.Join(s.dir, clusterFile), []byte(m.file), 0o600); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.writeClock()
	if err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	for range startAttempts {
		if err = s.pickPorts(); err != nil {
			return err
		}
		if err = s.writeConfig(); err != nil {
			return err
		}
		// Another process may have taken the port since it was free.
		if err = s.start(ctx); !errors.Is(err, errPortTaken) || s.conf.member != nil {
			return err
		}
	}
	return err
}

func (s *Server) pickPorts() (err error) {
	if s.conf.member != nil {
		s.port = s.conf.member.port
	} else {
		s.port, err = FreePort()
	}
	if err != nil || !s.conf.tls {
		return err
	}
	s.tlsPort, err = FreePort()
	return err
}

func (s *Server) restart(ctx context.Context) error {
	if s.closed {
		return errClosed
	}
	var err error
	poll(startTimeout, func() bool {
		// The kill freed the port. Another process that took it meanwhile may free it again.
		err = s.start(ctx)
		return !errors.Is(err, errPortTaken) || ctx.Err() != nil
	})
	return err
}

// start runs the process and waits until it answers. Requires s.mu.
func (s *Server) start(ctx context.Context) error {
	s.releasePorts()
	var env []string
	if s.preload != "" {
		env = FaketimeEnv(s.preload, s.clockFile())
	}
	p, err := spawn(s.commandLine(), env, s.logFile())
	if err != nil {
		return err
	}
	defer s.unlinkShared(p.pid())
	ready := poll(startTimeout, func() bool { return ctx.Err() != nil || p.exited() || s.answers(ctx) })
	if err := ctx.Err(); err != nil {
		p.kill()
		return fmt.Errorf("wait for an answer: %w", err)
	}
	if !ready || p.exited() {
		p.kill()
		return s.startError()
	}
	if err := s.checkClock(ctx); err != nil {
		p.kill()
		return errors.Join(err, s.startError())
	}
	s.proc = p
	return nil
}

// answers asks over the unix socket in this server's own directory: another server could be behind the port. It sends
// the password, because a server that is still loading demands it first.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.doContext(ctx, "PING")
	var refused ReplyError
	if errors.As(err, &refused) {
		return !strings.HasPrefix(string(refused), "LOADING") // a refusal to this user is an answer
	}
	return err == nil
}

func (s *Server) startError() error {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return fmt.Errorf("redis-server did not start, and left no log: %w", err)
	}
	if strings.Contains(string(log), "Address already in use") {
		return fmt.Errorf("%w: %s", errPortTaken, log)
	}
	if strings.Contains(string(log), "connection type tls") || strings.Contains(string(log), "'tls-port ") {
		return fmt.Errorf("%w: %s", errNoTLS, log)
	}
	hint := ""
	if s.preload != "" {
		hint = " (under libfaketime, one whose shared libjemalloc frees memory crashes: " + ProgramEnv + " may name another)"
	}
	return fmt.Errorf("redis-server on %s did not start%s; its log:\n%s", s.Addr(), hint, log)
}

func hostPort(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func panicf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// poll asks cond at a short interval until it holds, and tells whether it did within the timeout.
func poll(timeout time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(timeout)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		<-ticker.C
	}
	return true
}
