//go:build unix

package doctor

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// setup is three servers, and how the doctor is called.
type setup struct {
	t         *testing.T
	servers   []*redisproc.Server
	addresses []string
	cfg       Config
}

func (s *setup) start(opts ...redisproc.Option) {
	s.servers = redisproc.StartN(s.t, 3, append([]redisproc.Option{redisproc.WithAOF()}, opts...)...)
	s.addresses = nil
	for _, server := range s.servers {
		s.addresses = append(s.addresses, server.Addr())
	}
}

// open opens them, as an operator does.
func (s *setup) open(cfg quorumlock.Config) {
	cfg.Addresses = s.addresses
	_, err := admin.Init(s.t.Context(), cfg)
	require.NoError(s.t, err)
}

func (s *setup) command(server int, line string) {
	_, err := s.servers[server].Command(strings.Fields(line)...)
	require.NoError(s.t, err)
}

// replace puts another server in the place of the first, with a marker.
func (s *setup) replace(opts ...redisproc.Option) {
	server := redisproc.Start(s.t, append([]redisproc.Option{redisproc.WithAOF()}, opts...)...)
	s.servers[0], s.addresses[0] = server, server.Addr()
	text, _ := server.Command("INFO", "replication") // empty from a server that refuses it
	_, _ = server.Command("HSET", "quorumlock:node", "identity", cmp.Or(parseInfo(text)["master_replid"], "hidden"), "since", "0")
}

// settle writes markers with the servers' current replication ids, so that the nodes do not recover. Tests need it after a
// first replica attached, and where quorumlock init cannot run.
func (s *setup) settle() {
	for i, server := range s.servers {
		s.command(i, "HSET quorumlock:node identity "+server.ReplicationID()+" since 0")
	}
}

// TestSetups: for each faulty set-up of real servers, one check finds it, and no other finds a problem.
func TestSetups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// arrange begins with three healthy servers.
		arrange  func(s *setup)
		check    string
		severity Severity
		says     string // texts, separated by |
	}{
		"a server that does not run": {func(s *setup) { s.servers[1].Kill() }, "reachable", Error, "refused|Start the server"},
		"a server that hangs":        {func(s *setup) { s.servers[1].Pause() }, "reachable", Error, "timeout|a server that hangs"},
		"a wrong password": {
			func(s *setup) { s.addresses[0] = "redis://nobody:wr0ng@" + s.addresses[0] },
			"reachable", Error, "access denied|Correct user and password",
		},
		"a Sentinel in the place of a node": {
			func(s *setup) { s.addresses[0] = redisproc.StartSentinel(s.t, "m", s.servers[0]).Addr() },
			"reachable", Error, "this is a Sentinel|?master_set=NAME",
		},
		"a database that is not there": {
			func(s *setup) { s.addresses[0] = "redis://" + s.addresses[0] + "/99" },
			"reachable", Error, "out of range|Correct the database",
		},
		"another service in the place of a server": {func(s *setup) {
			s.addresses[2] = redisproc.Serve(s.t, func(client net.Conn) { _, _ = io.WriteString(client, "220 mail.example.org ESMTP\r\n") }).Addr()
		}, "reachable", Error, "protocol error|Correct the address"},
		"a cluster": {func(s *setup) {
			s.addresses[2] = redisproc.Start(s.t, redisproc.WithAOF(), redisproc.WithArgs("--cluster-enabled", "yes")).Addr()
		}, "usable", Error, "part of a cluster|cluster-enabled no"},
		"a replica in the place of a node": {
			func(s *setup) { s.servers[2].Follow(redisproc.Start(s.t)) },
			"usable", Error, "it is a replica of 127.0.0.1:|list the master",
		},
		"eviction": {func(s *setup) {
			s.servers[0].Config("maxmemory-policy", "allkeys-lru")
			s.servers[0].Config("maxmemory", "100mb")
		}, "usable", Error, "maxmemory-policy is allkeys-lru|set maxmemory-policy to noeviction|AllowEviction|CONFIG SET maxmemory-policy noeviction"},
		"no memory left": {func(s *setup) {
			for _, server := range s.servers {
				server.Config("maxmemory", "500kb")
			}
		}, "memory", Error, "out of memory|CONFIG SET maxmemory "},
		"two addresses of one server": {
			func(s *setup) { s.addresses[2] = "unix://" + s.servers[0].Socket() },
			"identity", Error, "two addresses lead to one server|Correct the list",
		},
		"new nodes that are not open": {func(s *setup) { s.start() }, "marker", Warning, "has no marker|quorumlock init --max-ttl 10s --max-clock-skew 1s"},
		"a node that restarted": {
			func(s *setup) { s.servers[0].Restart() },
			"marker", Warning, "restarted|11s from the first attempt on|do not run quorumlock init",
		},
		"a node that recovers": {func(s *setup) {
			s.servers[0].Restart()
			_, err := admin.Look(s.t.Context(), quorumlock.Config{Addresses: s.addresses}) // it begins the recovery
			require.NoError(s.t, err)
		}, "marker", Warning, "recovers, and gives no new locks for another |Wait"},
		"a marker of another program": {
			func(s *setup) { s.command(0, "SET quorumlock:node x") },
			"marker", Error, "was not written by the library|DEL quorumlock:node",
		},
		"fences of another program": {
			func(s *setup) { s.command(0, "HSET quorumlock:fences other type") },
			"marker", Error, "the key quorumlock:fences was not written by the library|DEL quorumlock:fences quorumlock:node",
		},
		"one server has a wrong clock": {func(s *setup) {
			s.start(redisproc.WithFaketime())
			s.open(quorumlock.Config{})
			s.servers[1].SetClock(-3 * time.Second)
		}, "clock", Error, "behind this machine's by more than MaxClockSkew (1s)|chronyc tracking"},
		"this machine has a wrong clock": {func(s *setup) {
			s.start(redisproc.WithClock(-3 * time.Second))
			s.open(quorumlock.Config{})
		}, "clock", Error, "behind this machine's by more than MaxClockSkew (1s)|correct the clock of this machine"},
		"replicas without min-replicas-to-write": {func(s *setup) {
			redisproc.StartReplica(s.t, s.servers[0])
			s.settle()
		}, "replication", Warning, "min-replicas-to-write is 0|CONFIG SET min-replicas-to-write 1"},
		"a master behind Sentinel without min-replicas-to-write": {func(s *setup) {
			redisproc.StartReplica(s.t, s.servers[0])
			s.settle()
			s.addresses[0] = "redis://" + redisproc.StartSentinel(s.t, "m", s.servers[0]).Addr() + "?master_set=m"
		}, "replication", Error, "m@127.0.0.1:|min-replicas-to-write is 0|CONFIG SET min-replicas-to-write 1"},
		"a master that lost its replicas": {func(s *setup) {
			s.servers[0].Config("min-replicas-to-write", "1")
			s.servers[0].Config("min-replicas-max-lag", "1")
		}, "replication", Error, "0 replicas keep up, and min-replicas-to-write demands 1|Bring the replicas back"},
		"a network that is too slow": {func(s *setup) {
			s.addresses[2] = redisproc.Relay(s.t, s.addresses[2], slowly, redisproc.Copy).Addr()
			s.cfg.Timeout = 50 * time.Millisecond
		}, "round-trip", Error, "programs wait for 50ms|raise NodeTimeoutMax"},
		"no scripts": {func(s *setup) {
			s.start(redisproc.WithArgs("--rename-command", "EVAL", ""))
			s.settle()
		}, "rights", Error, "does not know EVAL|rename-command"},
		"a server that is too old": {
			func(s *setup) { s.replace(redisproc.WithProgram(redisproc.Fetched(s.t, redisproc.TooOld))) },
			"usable", Error, "the server is Redis 6.2.5",
		},
		// A missing INFO is not a missing EVAL or SUBSCRIBE, whose trials needed it once.
		"a server without INFO": {func(s *setup) { s.replace(redisproc.WithArgs("--rename-command", "INFO", "")) }, "usable", Error, "refuses INFO (unknown command|AllowUnseenLosses"},
		"a user without INFO": {
			func(s *setup) { s.replace(redisproc.WithACL("user default on nopass ~* &* +@all -info")) },
			"rights", Error, "lacks rights for locks: +info",
		},
		// A managed service may forbid CLIENT. That is a warning, and one page says what follows.
		"a server without CLIENT": {
			func(s *setup) { s.replace(redisproc.WithArgs("--rename-command", "CLIENT", "")) },
			"rights", Warning, "CLIENT KILL|docs/where-it-runs.md",
		},
		"TLS to a plain port": {
			func(s *setup) { s.addresses[0] = "rediss://" + s.addresses[0] },
			"reachable", Error, "does not speak TLS at this port|redis:// instead of rediss://",
		},
		"TLS to a plain port with a password": {func(s *setup) {
			s.replace(redisproc.WithPassword("secret"))
			s.addresses[0] = "rediss://" + s.addresses[0]
		}, "reachable", Error, "does not speak TLS at this port|redis:// instead of rediss://"},
		"TLS to a server that hangs": {
			func(s *setup) { s.addresses[0] = "rediss://" + s.addresses[0]; s.servers[0].Pause() },
			"reachable", Error, "timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &setup{t: t, cfg: Config{Limits: limits, Timeout: 3 * time.Second, Patience: 4 * time.Second, Names: []string{"job:a"}}}
			s.start()
			s.open(quorumlock.Config{})
			c.arrange(s)
			found := s.examine()
			text := fmt.Sprint(found[c.check])
			for says := range strings.SplitSeq(c.says, "|") {
				assert.Contains(t, text, says)
			}
			assert.Len(t, found, 1, "%v", found)
			worst := OK
			for _, f := range found[c.check] {
				worst = max(worst, f.Severity)
			}
			assert.Equal(t, c.severity, worst)
		})
	}
}

// examine returns the checks with warnings or errors. Answers may be slow for a moment on a busy machine, so it looks
// again then, unless they are meant to be slow.
func (s *setup) examine() (found map[string][]Finding) {
	options := make([]node.Options, len(s.addresses))
	for i, address := range s.addresses {
		var err error
		options[i], err = node.ParseOptions(address)
		require.NoError(s.t, err)
	}
	cfg := s.cfg
	cfg.Nodes = options
	for range 10 {
		found = make(map[string][]Finding)
		r := Examine(s.t.Context(), cfg).Report()
		for _, c := range r.Checks {
			if worse := worse(r, c.ID); len(worse) > 0 {
				found[c.ID] = worse
			}
		}
		if found["round-trip"] == nil || cfg.Timeout < time.Second {
			return found
		}
	}
	return found
}

// slowly passes commands on through a slow network.
func slowly(server, client net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		time.Sleep(60 * time.Millisecond)
		if _, wrong := server.Write(buffer[:n]); wrong != nil || err != nil {
			return
		}
	}
}
