//go:build unix

package main

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// misconfigurations lists faulty set-ups. For each, the doctor must report one check and no other problem, exit with the
// code, and print the texts in says.
var misconfigurations = []struct {
	name string
	// arrange sets it up, and returns the nodes and flags for the doctor.
	arrange func(t *testing.T) (nodes string, flags []string)
	check   string
	code    int
	says    []string
}{
	{"a server that does not run", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		servers[1].Kill()
		return servers.nodes(), nil
	}, "reachable", exitErrors, []string{"refused", "Start the server"}},
	{"a majority that does not run", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		servers[1].Kill()
		servers[2].Kill()
		return servers.nodes(), nil
	}, "reachable", exitErrors, []string{"1 of 3 nodes answer, and 2 are needed", "Bring back"}},
	{"a server that hangs", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		servers[1].Pause()
		return servers.nodes(), nil
	}, "reachable", exitErrors, []string{"timeout", "a server that hangs"}},
	{"a wrong password", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return strings.Replace(servers.nodes(), servers[0].Addr(), "redis://nobody:wr0ng@"+servers[0].Addr(), 1), nil
	}, "reachable", exitErrors, []string{"access denied", "Correct user and password"}},
	{"an untrusted certificate", func(t *testing.T) (string, []string) {
		servers := healthy(t, redisproc.WithTLS())
		return strings.Replace(servers.nodes(), servers[0].Addr(), "rediss://"+servers[0].TLSAddr(), 1), nil
	}, "reachable", exitErrors, []string{"certificate", "$SSL_CERT_FILE"}},
	{"a Sentinel in the place of a node", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		sentinel := redisproc.StartSentinel(t, "m", servers[0])
		return sentinel.Addr() + "," + servers[1].Addr() + "," + servers[2].Addr(), nil
	}, "reachable", exitErrors, []string{"this is a Sentinel", "?master_set=NAME"}},
	{"an even number of nodes", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers[0].Addr() + "," + servers[1].Addr(), nil
	}, "count", exitErrors, []string{"2 nodes are an even number", "--allow-even"}},
	{"a cluster", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		cluster := redisproc.Start(t, redisproc.WithAOF(), redisproc.WithArgs("--cluster-enabled", "yes"))
		return servers[0].Addr() + "," + servers[1].Addr() + "," + cluster.Addr(), nil
	}, "mode", exitErrors, []string{"Redis Cluster", "cluster-enabled no"}},
	{"a replica in the place of a node", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		master := redisproc.Start(t)
		servers[2].Follow(master)
		return servers.nodes(), nil
	}, "role", exitErrors, []string{"is a replica of 127.0.0.1:", "REPLICAOF NO ONE"}},
	{"eviction", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		evicting(servers)
		return servers.nodes(), nil
	}, "eviction", exitErrors, []string{"maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction", "AllowEviction"}},
	{"eviction that is allowed", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		evicting(servers)
		return servers.nodes(), []string{"--allow-eviction"}
	}, "eviction", exitWarnings, []string{"maxmemory-policy is allkeys-lru", "--allow-eviction permits", "only to save work"}},
	{"no memory left", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		for _, s := range servers {
			s.Config("maxmemory", "500kb")
		}
		return servers.nodes(), nil
	}, "memory", exitErrors, []string{"out of memory", "CONFIG SET maxmemory "}},
	{"two addresses of one server", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers[0].Addr() + "," + servers[1].Addr() + ",unix://" + servers[0].Socket(), nil
	}, "identity", exitErrors, []string{"two addresses lead to one server", "Correct the list"}},
	{"new nodes that are not open", func(t *testing.T) (string, []string) {
		return newFleet(t, 3, redisproc.WithAOF()).nodes(), nil
	}, "marker", exitWarnings, []string{"has no marker", "quorumlock init --max-ttl 10s --max-clock-skew 1s"}},
	{"a node that was emptied", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		_, err := servers[0].Command("FLUSHALL")
		require.NoError(t, err)
		return servers.nodes(), nil
	}, "marker", exitWarnings, []string{"has no marker", "do not run quorumlock init"}},
	{"a node that restarted", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		servers[0].Restart()
		return servers.nodes(), nil
	}, "marker", exitWarnings, []string{"restarted", "11s from the first attempt on", "do not run quorumlock init"}},
	{"a node that recovers", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		servers[0].Restart()
		require.Eventually(t, func() bool { // the attempt that reaches the server begins the recovery
			servers.requireGives(t, exitOK)
			identity, err := servers[0].Command("HGET", "quorumlock:node", "identity")
			return err == nil && identity == servers[0].ReplicationID()
		}, patience, time.Millisecond)
		return servers.nodes(), nil
	}, "marker", exitWarnings, []string{"recovers, and gives no new locks for another ", "Wait"}},
	{"a marker of another program", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		_, err := servers[0].Command("SET", "quorumlock:node", "x")
		require.NoError(t, err)
		return servers.nodes(), nil
	}, "marker", exitErrors, []string{"was not written by the library", "DEL quorumlock:node"}},
	{"fences of another program", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		_, err := servers[0].Command("HSET", "quorumlock:fences", "of another", "type")
		require.NoError(t, err)
		return servers.nodes(), nil
	}, "marker", exitErrors, []string{"the key quorumlock:fences was not written by the library", "DEL quorumlock:fences quorumlock:node"}},
	{"nodes set up for other limits", func(t *testing.T) (string, []string) {
		servers := newFleet(t, 3, redisproc.WithAOF())
		servers.open(t, quick)
		return servers.nodes(), nil
	}, "limits", exitErrors, []string{"MaxTTL 2s and MaxClockSkew 100ms, not 10s and 1s", "quorumlock init --change-limits --max-ttl 10s --max-clock-skew 1s"}},
	{"one server has a wrong clock", func(t *testing.T) (string, []string) {
		servers := healthy(t, redisproc.WithFaketime())
		servers[1].SetClock(-3 * time.Second)
		return servers.nodes(), nil
	}, "clock", exitErrors, []string{"the clock is 3s (±", "behind this machine's", "chronyc tracking"}},
	{"this machine has a wrong clock", func(t *testing.T) (string, []string) {
		return healthy(t, redisproc.WithClock(-3*time.Second)).nodes(), nil
	}, "clock", exitErrors, []string{"the nodes agree on the time, and are 3s (±", "Correct the clock of this machine"}},
	{"replicas without min-replicas-to-write", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		redisproc.StartReplica(t, servers[0])
		servers.settle(t)
		return servers.nodes(), nil
	}, "replication", exitWarnings, []string{"min-replicas-to-write is 0", "CONFIG SET min-replicas-to-write 1"}},
	{"a master behind Sentinel without min-replicas-to-write", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		redisproc.StartReplica(t, servers[0])
		servers.settle(t)
		sentinel := redisproc.StartSentinel(t, "m", servers[0])
		return "redis://" + sentinel.Addr() + "?master_set=m," + servers[1].Addr() + "," + servers[2].Addr(), nil
	}, "replication", exitErrors, []string{"m@127.0.0.1:", "min-replicas-to-write is 0", "CONFIG SET min-replicas-to-write 1"}},
	{"a database that is not there", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return strings.Replace(servers.nodes(), servers[0].Addr(), "redis://"+servers[0].Addr()+"/99", 1), nil
	}, "reachable", exitErrors, []string{"out of range", "Correct the database"}},
	{"another service in the place of a server", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers[0].Addr() + "," + servers[1].Addr() + "," + greeter(t), nil
	}, "reachable", exitErrors, []string{"protocol error", "Correct the address"}},
	{"min-replicas-max-lag exceeds MaxClockSkew", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		redisproc.StartReplica(t, servers[0])
		redisproc.StartReplica(t, servers[0])
		servers.settle(t)
		servers[0].Config("min-replicas-to-write", "1")
		servers[0].Config("min-replicas-max-lag", "10")
		return servers.nodes(), nil
	}, "replication", exitWarnings, []string{
		"min-replicas-max-lag is 10 s, and MaxClockSkew is 1s", "CONFIG SET min-replicas-max-lag 1",
		"quorumlock init --change-limits --max-ttl 10s --max-clock-skew 2s",
	}},
	{"a master that lost its replicas", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		servers[0].Config("min-replicas-to-write", "1")
		servers[0].Config("min-replicas-max-lag", "1")
		return servers.nodes(), nil
	}, "replication", exitErrors, []string{"0 replicas keep up, and min-replicas-to-write demands 1", "Bring the replicas back"}},
	{"a network that is too slow", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers[0].Addr() + "," + servers[1].Addr() + "," + slowly(t, servers[2].Addr(), 60*time.Millisecond), []string{"--node-timeout", "50ms"}
	}, "round-trip", exitErrors, []string{"programs wait for 50ms", "raise NodeTimeoutMax"}},
	{"no scripts", func(t *testing.T) (string, []string) {
		servers := newFleet(t, 3, redisproc.WithAOF(), redisproc.WithArgs("--rename-command", "EVAL", ""))
		servers.settle(t)
		return servers.nodes(), nil
	}, "lua", exitErrors, []string{"runs no Lua scripts", "rename-command"}},
	{"a user without rights for locks", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		redisproc.Needs7(t, servers[0], "a script that may not write")
		return servers.as(t, "-hset"), nil
	}, "rights", exitErrors, []string{"lacks rights for locks: +hset", "ACL SETUSER locker +hset"}},
	{"a user without rights for its names", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers.as(t, "resetkeys", "~quorumlock:*", "~other:*"), nil
	}, "rights", exitErrors, []string{"lacks rights for locks: ~job:a", "ACL SETUSER locker ~job:a"}},
	{"a user without rights for its names with the prefix", func(t *testing.T) (string, []string) {
		return healthy(t).as(t), []string{"--prefix", "billing:"}
	}, "rights", exitErrors, []string{"lacks rights for locks: ~billing:job:a", "ACL SETUSER locker ~billing:job:a"}},
	{"a user without rights to wait", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		redisproc.Needs7(t, servers[0], "a script that may not write")
		return servers.as(t, "resetchannels", "-zadd"), nil
	}, "rights", exitWarnings, []string{"lacks rights for waiting", "ACL SETUSER locker +zadd &quorumlock:inbox:*"}},
}

func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	for _, c := range misconfigurations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes, flags := c.arrange(t)
			passing := roundTrip
			if c.check == roundTrip {
				passing = "reachable"
			}
			d := diagnose(t, passing, nil, append([]string{"--nodes", nodes}, flags...)...)
			found := d.worse("error warning")
			for _, says := range c.says {
				assert.Contains(t, found[c.check], says)
			}
			assert.Equal(t, c.code, d.code, "%q", found)
			assert.Len(t, found, 1, "%q", found)
		})
	}
}

// settle writes markers with the servers' current replication ids, so that the nodes do not recover. Tests need it after a
// first replica attached, and where quorumlock init cannot run.
func (f fleet) settle(t *testing.T) {
	t.Helper()
	for _, s := range f {
		_, err := s.Command("HSET", "quorumlock:node", "identity", s.ReplicationID(), "until", "0", "max_ttl", "10000", "max_skew", "1000")
		require.NoError(t, err)
	}
}

// slowly returns the address of a server behind a slow network.
func slowly(t *testing.T, address string, delay time.Duration) string {
	t.Helper()
	return redisproc.Relay(t, address, func(server, client net.Conn) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			time.Sleep(delay)
			if _, wrong := server.Write(buffer[:n]); wrong != nil || err != nil {
				return
			}
		}
	}, redisproc.Copy)
}

// greeter returns the address of a service that does not speak Redis's protocol.
func greeter(t *testing.T) string {
	t.Helper()
	return redisproc.Serve(t, func(client net.Conn) { _, _ = io.WriteString(client, "220 mail.example.org ESMTP\r\n") })
}
