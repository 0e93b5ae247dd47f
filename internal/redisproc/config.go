package redisproc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Option changes how a server is started.
type Option func(*config)

type config struct {
	password string
	settings []string // lines of the configuration file
	tls      bool
	faketime []string      // where libfaketime may be; empty for the true clock
	clock    time.Duration // the offset of the clock at first
	args     []string
	program  string   // of WithProgram
	line     []string // of WithCommandLine
	master   *Server  // followed at first
	sentinel *watched // run as a Sentinel
	member   *member  // of a cluster
}

// WithPassword demands the password of the default user (requirepass).
func WithPassword(password string) Option {
	return func(c *config) { c.password = password }
}

// WithACL adds users; each line has the form of an ACL file, such as
// "user alice on >secret ~* &* +@all".
func WithACL(lines ...string) Option {
	return func(c *config) { c.settings = append(c.settings, lines...) }
}

// WithTLS makes the server listen on a second port with TLS; see [Server.TLSAddr] and
// [Server.CertPool].
func WithTLS() Option {
	return func(c *config) { c.tls = true }
}

// WithAOF has the server log each write to its append-only file and sync it before the reply: a
// server that is killed comes back with everything it acknowledged. The log is never rewritten on
// its own, so that a size from [Server.AOFSize] stays a place in it.
func WithAOF() Option {
	return func(c *config) {
		c.settings = append(c.settings, "appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0")
	}
}

// WithFaketime runs the server under libfaketime, so that [Server.SetClock] can step its wall clock.
// It is not for a Sentinel, which cannot be asked for the time, nor for benchmarks: the server looks
// into a file at each reading of the clock.
func WithFaketime() Option {
	return func(c *config) { c.faketime = faketimePatterns() }
}

// WithClock is [WithFaketime] with a wall clock that is off by offset from the first start on.
func WithClock(offset time.Duration) Option {
	return func(c *config) {
		WithFaketime()(c)
		c.clock = offset
	}
}

// WithArgs adds arguments to the command line, such as "--appendonly", "yes". They override what
// this package sets.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// WithProgram runs another server program than the usual one: see [Fetched].
func WithProgram(path string) Option {
	return func(c *config) { c.program = path }
}

// WithCommandLine starts the server by a command line of others, with paths of the test in place of theirs; a path that
// ends with a slash stands for all below it. Only ports, socket and directory are those of this package.
func WithCommandLine(line []string, paths map[string]string) Option {
	return func(c *config) {
		c.line = slices.Clone(line)
		for i, arg := range line {
			for from, to := range paths {
				if arg == from || strings.HasSuffix(from, "/") && strings.HasPrefix(arg, from) {
					c.line[i] = to + strings.TrimPrefix(arg, from)
				}
			}
		}
		c.program = c.line[0]
	}
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) commandLine() []string {
	if s.conf.line != nil {
		line := slices.Clone(s.conf.line)
		if i := slices.Index(line, "--dir"); i > 0 { // the server goes there at once, and the path of others may be missing
			line[i+1] = s.dir
		}
		return append(line, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--unixsocket", s.Socket(), "--dir", s.dir)
	}
	line := []string{s.conf.serverProgram(), s.configFile()}
	if s.conf.sentinel != nil {
		line = append(line, "--sentinel")
	}
	return append(line, s.conf.args...)
}

// configText is the configuration file. The log goes to standard output, which the process has
// directed to the log file: so complaints about the configuration itself are found there too.
func (s *Server) configText() string {
	var b strings.Builder
	set := func(name string, value any) { fmt.Fprintf(&b, "%s %v\n", name, value) }
	set("bind", "127.0.0.1")
	set("port", s.port)
	set("unixsocket", strconv.Quote(s.Socket()))
	set("dir", strconv.Quote(s.dir))
	set("loglevel", "warning")
	if s.conf.password != "" {
		set("requirepass", strconv.Quote(s.conf.password))
	}
	for _, line := range s.conf.settings {
		b.WriteString(line + "\n")
	}
	if s.conf.tls {
		set("tls-port", s.tlsPort)
		set("tls-cert-file", strconv.Quote(filepath.Join(s.dir, certFile)))
		set("tls-key-file", strconv.Quote(filepath.Join(s.dir, keyFile)))
		set("tls-ca-cert-file", strconv.Quote(filepath.Join(s.dir, certFile)))
		set("tls-auth-clients", "no")
	}
	if s.conf.sentinel != nil {
		s.conf.sentinel.configure(set)
		return b.String()
	}
	if s.maxMemory != 0 {
		set("maxmemory", s.maxMemory)
	}
	set("save", `""`)
	s.configureReplication(set)
	return b.String()
}

// configureReplication writes the part for masters and replicas. Otherwise, both would keep the snapshot of a first
// sync as their dump, and load it after a restart.
func (s *Server) configureReplication(set func(name string, value any)) {
	set("repl-diskless-sync", "yes")
	set("repl-diskless-sync-delay", 0) // a replica need not wait for others that are not coming
	set("rdb-del-sync-files", "yes")
	if s.master == nil {
		return
	}
	set("replicaof", "127.0.0.1 "+strconv.Itoa(s.master.port))
	if pw := s.master.conf.password; pw != "" {
		set("masterauth", strconv.Quote(pw))
	}
}

func (s *Server) writeConfig() error {
	return os.WriteFile(s.configFile(), []byte(s.configText()), 0o600)
}

// dataDir makes a directory whose path is short enough for a unix socket within.
func dataDir() (string, error) {
	const socketLimit = 100
	dir, err := os.MkdirTemp("", "redisproc")
	if err != nil || len(dir)+len("/s") < socketLimit {
		return dir, err
	}
	if err := os.Remove(dir); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "redisproc")
}

// FreePort finds a free port below the range that systems usually use for outgoing connections. While its server is
// down, any outgoing connection can take a port in that range. Even a client that redials the dead server can take
// it, and reach itself.
func FreePort() (int, error) { return freePort(highestPort) }

// Ports come from this range.
const lowestPort, highestPort = 10_000, 30_000

// nextPort counts the ports that this process has tried. It begins anywhere, since other processes look for ports too. A
// port that was given away may still be free, so a second random choice could find it again.
var nextPort = func() *atomic.Uint32 {
	var next atomic.Uint32
	next.Store(rand.Uint32N(highestPort))
	return &next
}()

// freePort is FreePort for a port below a limit. The ports at the offsets from it must be free too.
func freePort(limit int, offsets ...int) (int, error) {
	var err error
	for range 100 {
		port := lowestPort + int(nextPort.Add(1))%(limit-lowestPort)
		err = probePort(port)
		for _, offset := range offsets {
			err = errors.Join(err, probePort(port+offset))
		}
		if err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

func probePort(port int) error {
	l, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		return err
	}
	return l.Close()
}
