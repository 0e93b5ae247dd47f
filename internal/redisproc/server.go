// Package redisproc runs real redis-server processes for tests and benchmarks: each with its own
// data directory and port, and with handles to kill, pause and restart it.
//
// The servers listen on loopback and on a unix socket, and keep nothing on disk unless told to.
// They need redis-server on PATH, or the program that [ProgramEnv] names. Its absence is a failure, never
// a skip, because a test that did not run proves nothing. Real sockets do not belong into a synctest bubble: start servers outside.
//
// Program code never imports this package; internal/deptest checks it.
package redisproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

const (
	startTimeout   = 30 * time.Second // generous: many servers may start at once on a small machine
	commandTimeout = 5 * time.Second
	pollInterval   = 2 * time.Millisecond
	startAttempts  = 10
)

// Server is one redis-server process with its own data directory. Its methods may be called
// concurrently. Those without an error result end the test on failure, or panic where the server
// came from [TryLaunch].
type Server struct {
	conf    config
	dir     string
	port    int
	tlsPort int
	preload string // path of libfaketime; empty for the true clock
	fail    func(format string, args ...any)

	mu        sync.Mutex
	proc      *process      // nil before the first start and after Kill
	clock     time.Duration // the offset of the server's clock
	maxMemory int64         // in bytes, also after a restart; 0 for no limit of its own
	master    *Server       // followed, also after a restart; nil for a master
	closed    bool
	reserved  []func() // give up the ports that are kept while the server is down
}

// Start launches a server that answers, and closes it when the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return StartN(t, 1, opts...)[0]
}

// StartN launches n servers in parallel, all with the same options, and closes them when the test
// ends.
func StartN(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	servers, err := TryLaunchN(context.Background(), n, opts...)
	for _, s := range servers {
		s.adopt(t)
	}
	if errors.Is(err, errNoTLS) && os.Getenv(ProgramEnv) != "" {
		testkit.Missing(t, false, "a server with TLS, and $%s has none", ProgramEnv)
	}
	if err != nil {
		t.Fatalf("redisproc: %v", err)
	}
	return servers
}

// adopt binds the server to a test: failures are the test's, and so is the server's life.
func (s *Server) adopt(t testing.TB) {
	s.fail = func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format, args...)
	}
	t.Cleanup(s.Close)
}

// Addr is the server's TCP address; it stays the same over restarts.
func (s *Server) Addr() string { return hostPort(s.port) }

// TLSAddr is the server's TLS address, empty without [WithTLS].
func (s *Server) TLSAddr() string {
	if !s.conf.tls {
		return ""
	}
	return hostPort(s.tlsPort)
}

// Socket is the path of the server's unix socket, always below 100 bytes long.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// Dir is the server's data directory: dump, append-only file, log and certificates.
func (s *Server) Dir() string { return s.dir }

// PID is the process id, 0 while the server is not running.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return 0
	}
	return s.proc.pid()
}

// Kill ends the server with SIGKILL, paused or not, and returns once the process is gone. Commands
// that a paused server had received and not read are not executed. It does nothing if the server
// is not running.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
		s.reservePorts()
	}
}

// reservePorts keeps the ports of a server that is down from others, where that can be done. s.mu must
// be held.
func (s *Server) reservePorts() {
	for _, port := range s.ports() {
		if release, err := reserve(port); err == nil {
			s.reserved = append(s.reserved, release)
		}
	}
}

func (s *Server) ports() []int {
	ports := []int{s.port}
	if s.conf.tls {
		ports = append(ports, s.tlsPort)
	}
	if s.conf.member != nil {
		ports = append(ports, s.port+busOffset)
	}
	return ports
}

// releasePorts ends what reservePorts began. s.mu must be held.
func (s *Server) releasePorts() {
	for _, release := range s.reserved {
		release()
	}
	s.reserved = nil
}

// must ends the test, or panics, if err is not nil.
func (s *Server) must(action string, err error) {
	if err != nil {
		s.fail("redisproc: %s: %s: %v", s.Addr(), action, err)
	}
}

// Pause is [Server.TryPause], which must not fail.
func (s *Server) Pause() { s.must("pause", s.TryPause()) }

// TryPause stops the server with SIGSTOP and returns once all its threads stand still. Connections stay open, and are
// still accepted by the kernel, but nothing answers.
func (s *Server) TryPause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return errDown
	}
	return s.proc.pause()
}

// Resume is [Server.TryResume], which must not fail.
func (s *Server) Resume() { s.must("resume", s.TryResume()) }

// TryResume lets a paused server go on with SIGCONT. It does nothing if the server is not paused or not running.
func (s *Server) TryResume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	return s.proc.resume()
}

// Restart kills the server if it is running and starts it again on the same ports and data directory. It returns once
// the server answers; its memory is lost unless persistence was on.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	s.must("restart", s.restart(context.Background()))
}

// Close is [Server.TryClose], which must not fail.
func (s *Server) Close() { s.must("close", s.TryClose()) }

// TryClose kills the server and removes its data directory. It may be called more than once.
func (s *Server) TryClose() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	s.releasePorts()
	s.closed = true
	return s.remove("")
}

// Command sends one command over a fresh connection and returns the reply as text: strings as they
// are, integers in decimal, nil as "(nil)", an array with one element per line. An error reply is
// a [ReplyError]. It is bounded by a few seconds, and goes through the unix socket as the default
// user, with the password of [WithPassword].
func (s *Server) Command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return s.Do(ctx, args...)
}

// Do is [Server.Command], bounded by ctx alone.
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	r, err := s.doContext(ctx, args...)
	return r.text(), err
}

// Config changes a setting of the running server (CONFIG SET), such as "maxmemory" to "1mb". A
// restart forgets it.
func (s *Server) Config(name, value string) {
	s.must("configure", s.configSet(name, value))
}

func (s *Server) configSet(name, value string) error {
	if _, err := s.Command("CONFIG", "SET", name, value); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}

// Keys returns all keys of database 0, sorted.
func (s *Server) Keys() []string {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	r, err := s.doContext(ctx, "KEYS", "*")
	s.must("list the keys", err)
	keys := make([]string, 0, len(r.elems))
	for _, e := range r.elems {
		keys = append(keys, e.text())
	}
	slices.Sort(keys)
	return keys
}

func (s *Server) doContext(ctx context.Context, args ...string) (reply, error) {
	commands := [][]string{args}
	if s.conf.password != "" {
		commands = [][]string{{"AUTH", s.conf.password}, args}
	}
	return exchangeContext(ctx, "unix", s.Socket(), commands)
}
