package redisproc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Option changes how a server is started.
type Option func(*config)

type config struct {
	password string
	acl      []string
	tls      bool
	args     []string
	sentinel *watched // run as a Sentinel
}

func newConfig(opts []Option) config {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithPassword demands the password of the default user (requirepass).
func WithPassword(password string) Option {
	return func(c *config) { c.password = password }
}

// WithACL adds users; each line has the form of an ACL file, such as
// "user alice on >secret ~* &* +@all".
func WithACL(lines ...string) Option {
	return func(c *config) { c.acl = append(c.acl, lines...) }
}

// WithTLS makes the server listen on a second port with TLS; see [Server.TLSAddr] and
// [Server.CertPool].
func WithTLS() Option {
	return func(c *config) { c.tls = true }
}

// WithArgs adds arguments to the command line, such as "--appendonly", "yes". They override what
// this package sets.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) commandLine() []string {
	line := []string{"redis-server", s.configFile()}
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
	for _, line := range s.conf.acl {
		b.WriteString(line + "\n")
	}
	if s.conf.tls {
		set("tls-port", s.tlsPort)
		set("tls-cert-file", strconv.Quote(filepath.Join(s.dir, certFile)))
		set("tls-key-file", strconv.Quote(filepath.Join(s.dir, keyFile)))
		set("tls-ca-cert-file", strconv.Quote(filepath.Join(s.dir, caFile)))
		set("tls-auth-clients", "no")
	}
	if s.conf.sentinel != nil {
		s.conf.sentinel.configure(set)
		return b.String()
	}
	set("save", `""`)
	set("appendonly", "no")
	set("repl-diskless-sync-delay", 0) // a replica need not wait for others that are not coming
	return b.String()
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

// freePort finds a port that nobody listens on, below the range from which systems usually serve
// outgoing connections. A port from within that range can be lost while its server is down: to any
// outgoing connection, and even to a client that redials the dead server and reaches itself.
func freePort() (int, error) {
	const lowest, count = 10_000, 20_000
	var err error
	for range 100 {
		port := lowest + rand.IntN(count)
		var l net.Listener
		if l, err = net.Listen("tcp", hostPort(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
