//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// diagnosis is what doctor --json prints, as a script reads it.
type diagnosis struct {
	Severity string
	Nodes    []doctorNode
	Checks   []struct {
		ID, Severity string
		Findings     []struct {
			Severity, Found, Why, Do string
			Nodes, Commands          []string
		}
	}
	code int
}

// diagnose runs doctor as a process of its own.
func diagnose(t *testing.T, env []string, args ...string) (d diagnosis) {
	t.Helper()
	cmd := selfCommand(t, append([]string{"doctor", "--json", "--key", "job:a"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		d.code = exit.ExitCode()
	} else {
		require.NoError(t, err)
	}
	require.Empty(t, stderr.String())
	require.NoError(t, json.Unmarshal(out, &d), string(out))
	return d
}

// worse are the checks that found something of a severity or a worse one, each with all it says.
func (d diagnosis) worse(severities string) map[string]string {
	found := make(map[string]string)
	for _, c := range d.Checks {
		for _, f := range c.Findings {
			if strings.Contains(severities, f.Severity) {
				found[c.ID] += f.Severity + " " + strings.Join(f.Nodes, " ") + ": " + f.Found + "\n" + f.Do + "\n" + strings.Join(f.Commands, "\n") + "\n"
			}
		}
	}
	return found
}

// healthy starts servers of which there is nothing to say.
func healthy(t *testing.T, opts ...redisproc.Option) fleet {
	t.Helper()
	servers := newFleet(t, 3, append([]redisproc.Option{redisproc.WithAOF()}, opts...)...)
	servers.open(t)
	return servers
}

func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	servers := healthy(t)
	d := diagnose(t, nil, "--nodes", servers.nodes())
	assert.Zero(t, d.code)
	assert.Equal(t, "ok", d.Severity)
	assert.Empty(t, d.worse("error warning note unknown"))
	for i, n := range d.Nodes {
		assert.Equal(t, servers[i].Addr(), n.Node)
		assert.True(t, n.Reached)
		assert.Equal(t, "master", n.Role)
		assert.InDelta(t, 0, *n.Clock, 500)
		assert.Positive(t, *n.RoundTrip)
	}

	r := call(t, "doctor", "--nodes", servers.nodes(), "--key", "job:a")
	assert.Zero(t, r.code)
	assert.True(t, strings.HasSuffix(r.stdout, "\n3 nodes: nothing is wrong\n"), r.stdout)
	assert.NotContains(t, r.stdout, "\x1b", "no colour but on a terminal")
}

// What is wrong on purpose, which check finds it, how bad it is, and what it says to do. Nothing else
// that is bad is found.
var misconfigurations = []struct {
	name string
	// arrange makes it so, and says which nodes to look at.
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
	}, "reachable", exitErrors, []string{"no answer in time", "a server that hangs"}},
	{"a wrong password", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return strings.Replace(servers.nodes(), servers[0].Addr(), "redis://nobody:wr0ng@"+servers[0].Addr(), 1), nil
	}, "reachable", exitErrors, []string{"access denied", "Correct user and password"}},
	{"a certificate that nobody trusts", func(t *testing.T) (string, []string) {
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
		servers[0].Config("maxmemory-policy", "allkeys-lru")
		servers[2].Config("maxmemory-policy", "allkeys-lru")
		return servers.nodes(), nil
	}, "eviction", exitErrors, []string{"maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction"}},
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
	{"new nodes that nobody opened", func(t *testing.T) (string, []string) {
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
		servers.requireGives(t, exitOK) // the attempt begins the recovery
		return servers.nodes(), nil
	}, "marker", exitWarnings, []string{"recovers, and gives no new locks for another ", "Wait"}},
	{"a marker that somebody else wrote", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		_, err := servers[0].Command("SET", "quorumlock:node", "x")
		require.NoError(t, err)
		return servers.nodes(), nil
	}, "marker", exitErrors, []string{"is not what the library keeps there", "DEL quorumlock:node"}},
	{"other limits", func(t *testing.T) (string, []string) {
		servers := newFleet(t, 3, redisproc.WithAOF())
		servers.open(t, quick)
		return servers.nodes(), nil
	}, "limits", exitErrors, []string{"MaxTTL 2s and MaxClockSkew 100ms, not 10s and 1s", "quorumlock init --change-limits --max-ttl 10s --max-clock-skew 1s"}},
	{"the clock of one server", func(t *testing.T) (string, []string) {
		servers := healthy(t, redisproc.WithFaketime())
		servers[1].SetClock(-3 * time.Second)
		return servers.nodes(), nil
	}, "clock", exitErrors, []string{"the clock is 3s (±", "behind this machine's", "chronyc tracking"}},
	{"the clock of this machine", func(t *testing.T) (string, []string) {
		return healthy(t, redisproc.WithClock(-3*time.Second)).nodes(), nil
	}, "clock", exitErrors, []string{"the nodes agree on the time, and are 3s (±", "Correct the clock of this machine"}},
	{"replicas without min-replicas-to-write", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		redisproc.StartReplica(t, servers[0])
		servers.settle(t)
		return servers.nodes(), nil
	}, "replication", exitWarnings, []string{"min-replicas-to-write is 0", "CONFIG SET min-replicas-to-write 1"}},
	{"a master behind Sentinel that would go on alone", func(t *testing.T) (string, []string) {
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
	}, "reachable", exitErrors, []string{"not an answer of a Redis server", "Correct the address"}},
	{"a lag that is longer than MaxClockSkew", func(t *testing.T) (string, []string) {
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
		return servers.as(t, "-hset"), nil
	}, "rights", exitErrors, []string{"lacks rights for locks: +hset", "ACL SETUSER locker +hset"}},
	{"a user without rights for its names", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers.as(t, "resetkeys", "~quorumlock:*", "~other:*"), nil
	}, "rights", exitErrors, []string{"lacks rights for locks: ~job:a", "ACL SETUSER locker ~job:a"}},
	{"a user without rights to wait", func(t *testing.T) (string, []string) {
		servers := healthy(t)
		return servers.as(t, "resetchannels", "-zadd"), nil
	}, "rights", exitWarnings, []string{"lacks rights for waiting", "ACL SETUSER locker +zadd &quorumlock:inbox:*"}},
}

// as makes a user with the documented rights, and others besides, and names the servers for it.
func (f fleet) as(t *testing.T, rules ...string) string {
	t.Helper()
	addresses := make([]string, len(f))
	for i, s := range f {
		_, err := s.Command(append(strings.Fields(rights.SetUser("locker", "secret", "job:*")), rules...)...)
		require.NoError(t, err)
		addresses[i] = "redis://locker:secret@" + s.Addr()
	}
	return strings.Join(addresses, ",")
}

// settle writes the markers of nodes that are open: of those that got another identity by a first
// replica, and would recover now, and of those that cannot be opened.
func (f fleet) settle(t *testing.T) {
	t.Helper()
	for _, s := range f {
		_, err := s.Command("HSET", "quorumlock:node", "identity", s.ReplicationID(), "until", "0", "max_ttl", "10000", "max_skew", "1000")
		require.NoError(t, err)
	}
}

func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	for _, c := range misconfigurations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes, flags := c.arrange(t)
			d := diagnose(t, nil, append([]string{"--nodes", nodes}, flags...)...)
			found := d.worse("error warning")
			for _, says := range c.says {
				assert.Contains(t, found[c.check], says)
			}
			assert.Equal(t, c.code, d.code, "%q", found)
			assert.Len(t, found, 1, "%q", found)
		})
	}
}

// slowly is the address of a server behind a network on which everything takes its time.
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

// greeter is the address of a service that says something else than a server of Redis does.
func greeter(t *testing.T) string {
	t.Helper()
	return redisproc.Serve(t, func(client net.Conn) { _, _ = io.WriteString(client, "220 mail.example.org ESMTP\r\n") })
}

// A user with exactly the documented rights, over TLS with certificates of one's own: all can be
// checked, and nothing is wrong.
func TestDoctorWithTheDocumentedRightsOverTLS(t *testing.T) {
	t.Parallel()
	servers := healthy(t, redisproc.WithTLS())
	nodes := servers.as(t)
	for _, s := range servers {
		nodes = strings.ReplaceAll(nodes, "redis://locker:secret@"+s.Addr(), "rediss://locker:secret@"+s.TLSAddr())
	}
	d := diagnose(t, []string{"SSL_CERT_FILE=" + servers[0].CAFile()}, "--nodes", nodes)
	assert.Zero(t, d.code)
	assert.Empty(t, d.worse("error warning unknown"))
	assert.Equal(t, map[string]string{"rights": "note " + d.Nodes[0].Node + " " + d.Nodes[1].Node + " " + d.Nodes[2].Node +
		": the user locker lacks rights for latches: +sadd +scard +smembers\n" +
		"Permit them, as a user who may, and keep that: with ACL SAVE where the server has an ACL file, else with CONFIG REWRITE.\n" +
		"ACL SETUSER locker +sadd +scard +smembers\n"}, d.worse("note"))

	// The line that it says is the one that helps.
	for _, s := range servers {
		_, err := s.Command(strings.Fields("ACL SETUSER locker +sadd +scard +smembers")...)
		require.NoError(t, err)
	}
	d = diagnose(t, []string{"SSL_CERT_FILE=" + servers[0].CAFile()}, "--nodes", nodes)
	assert.Equal(t, "ok", d.Severity)
}

// Whatever the user may do, nothing is written: no key, no setting, no right.
func TestDoctorChangesNothing(t *testing.T) {
	t.Parallel()
	servers := healthy(t)
	_, err := servers[0].Command("SADD", "job:a", "m") // even at the name that is asked about
	require.NoError(t, err)
	documented := servers.as(t)
	users := []string{servers.nodes(), documented, strings.ReplaceAll(documented, "locker", "mighty")}
	for _, s := range servers {
		_, err := s.Command(strings.Fields("ACL SETUSER mighty on >secret ~* &* +@all -acl")...)
		require.NoError(t, err)
	}
	before := stateOf(t, servers[0])
	for _, nodes := range users {
		diagnose(t, nil, "--nodes", nodes)
		assert.Equal(t, before, stateOf(t, servers[0]))
	}
}

// stateOf is all of a server that a write would change, and how many writes there were.
func stateOf(t *testing.T, s *redisproc.Server) (state []string) {
	t.Helper()
	for _, command := range []string{"KEYS *", "DUMP quorumlock:node", "DUMP job:a", "CONFIG GET *", "ACL LIST", "PUBSUB CHANNELS"} {
		text, err := s.Command(strings.Fields(command)...)
		require.NoError(t, err)
		state = append(state, text)
	}
	persistence, err := s.Command("INFO", "persistence")
	require.NoError(t, err)
	return append(state, regexp.MustCompile(`rdb_changes_since_last_save:\d+`).FindString(persistence))
}

func TestDoctorWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"doctor", "no nodes: give --nodes"},
		{"doctor x --nodes a", "unknown command"},
		{"doctor --embedded 3", "--embedded means nothing here"},
		{"doctor --nodes a:b:c", "address 1: address does not parse"},
		{"doctor --nodes a --max-ttl 0s", "--max-ttl 0s is not positive"},
		{"doctor --nodes a --max-ttl 1s --max-clock-skew 1s", "--max-clock-skew 1s is over half of --max-ttl 1s"},
	} {
		r := call(t, strings.Fields(c.args)...)
		assert.Equal(t, exitFailure, r.code, c.args)
		assert.Contains(t, r.stderr, c.says)
		assert.Empty(t, r.stdout)
	}
}

// sick are facts for a report that has some of everything.
func sick() *doctor.Facts {
	limits := node.Limits{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second}
	sane := func(name, id string) doctor.Node {
		return doctor.Node{
			Name: name, User: "locker",
			Info: doctor.Fact[doctor.Info]{Value: doctor.Info{
				"redis_version": "7.0.15", "redis_mode": "standalone", "role": "master", "master_replid": id,
				"maxmemory_policy": "noeviction", "aof_enabled": "1", "cluster_enabled": "0",
			}},
			Marker: doctor.Fact[*doctor.Marker]{Value: &doctor.Marker{Identity: id, Limits: limits}},
			Clock:  doctor.Fact[doctor.Offset]{Value: doctor.Offset{Ahead: 400 * time.Microsecond, Error: 200 * time.Microsecond}},
			Trips:  []time.Duration{400 * time.Microsecond, 400 * time.Microsecond, 1900 * time.Microsecond},
			Trials: []doctor.Trial{{Rule: "+hset", For: rights.ForLocks, Verdict: doctor.Permitted}},
		}
	}
	f := &doctor.Facts{
		Nodes:  []doctor.Node{sane("redis-a:6379", "a"), sane("redis-b:6379", "b"), sane("redis-c:6379", "c")},
		Limits: limits, Timeout: 500 * time.Millisecond, Names: []string{"nightly-report"},
	}
	f.Nodes[0].Info.Value["maxmemory_policy"] = "allkeys-lru"
	f.Nodes[0].Info.Value["aof_enabled"] = "0"
	f.Nodes[1].Clock.Value.Ahead = -700 * time.Millisecond
	f.Nodes[1].Trials = append(f.Nodes[1].Trials,
		doctor.Trial{Rule: "&quorumlock:inbox:*", For: rights.ForWaiting, Verdict: doctor.Denied},
		doctor.Trial{Rule: "+zadd", For: rights.ForWaiting, Verdict: doctor.Denied})
	f.Nodes[2] = doctor.Node{Name: "redis-c:6379", User: "locker", Unreached: errors.New("unreachable: dial tcp 10.0.0.3:6379: connect: connection refused")}
	return f
}

// The sample in the documentation is what is printed.
func TestDoctorSample(t *testing.T) {
	var printed bytes.Buffer
	facts := sick()
	require.NoError(t, (&doctorText{w: &printed}).print(facts, facts.Report()))
	text, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	var sample strings.Builder
	for line := range strings.Lines(printed.String()) {
		if line != "\n" {
			sample.WriteString("    ")
		}
		sample.WriteString(line)
	}
	if !strings.Contains(string(text), "\n"+sample.String()+"\n") {
		t.Errorf("docs/doctor.md has another sample than:\n%s", sample.String())
	}
	for line := range strings.Lines(printed.String()) {
		assert.LessOrEqual(t, len([]rune(line))-1, helpColumns, line)
	}
}

// Nothing is as fast as 0.0ms, no clock is -0.0ms ahead, and nobody reads the names of all nodes again
// and again.
func TestDoctorIsBrief(t *testing.T) {
	facts := sick()
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		n.Unreached = nil
		n.Trips = []time.Duration{40 * time.Microsecond, 41 * time.Microsecond}
		n.Clock.Value.Ahead = -30 * time.Microsecond
		n.Info, n.Clock.Err = facts.Nodes[0].Info, nil
	}
	var printed bytes.Buffer
	require.NoError(t, (&doctorText{w: &printed}).print(facts, facts.Report()))
	assert.NotContains(t, printed.String(), " 0.0ms")
	assert.Contains(t, printed.String(), "  <0.1ms      <0.1ms\n")
	assert.NotContains(t, printed.String(), "-0.0")
	assert.NotContains(t, printed.String(), "on redis-a:6379, redis-b:6379 and redis-c:6379")
	assert.Contains(t, printed.String(), " on all 3 nodes\n")
}

func TestDoctorColours(t *testing.T) {
	facts := sick()
	var plain, coloured bytes.Buffer
	require.NoError(t, (&doctorText{w: &plain}).print(facts, facts.Report()))
	require.NoError(t, (&doctorText{w: &coloured, colour: true}).print(facts, facts.Report()))
	assert.Contains(t, coloured.String(), "\x1b[1;31merror\x1b[0m eviction on redis-a:6379\n")
	assert.Equal(t, plain.String(), strings.NewReplacer("\x1b[1;31m", "", "\x1b[1;33m", "", "\x1b[1;36m", "", "\x1b[0m", "").Replace(coloured.String()))
}

// What a server says cannot take the terminal over.
func TestDoctorEscapes(t *testing.T) {
	facts := sick()
	facts.Nodes[0].Info.Value["redis_version"] = "7.0\x1b[2J"
	facts.Nodes[2].Unreached = errors.New("\x1b[2J\nerror")
	var printed bytes.Buffer
	require.NoError(t, (&doctorText{w: &printed}).print(facts, facts.Report()))
	assert.NotContains(t, printed.String(), "\x1b")
	assert.Contains(t, printed.String(), `7.0\x1b[2J`)
	assert.NotContains(t, printed.String(), "\nerror\n")
}

// A report that cannot be written is a failure, and no diagnosis.
func TestDoctorCannotPrint(t *testing.T) {
	facts := sick()
	require.Error(t, printDoctorJSON(broken{}, facts, facts.Report()))
	require.Error(t, (&doctorText{w: broken{}}).print(facts, facts.Report()))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// As the comment of quorumlock.Config has it.
func TestProgramsTimeout(t *testing.T) {
	for maxTTL, timeout := range map[time.Duration]time.Duration{
		time.Minute: 500 * time.Millisecond, 10 * time.Second: 500 * time.Millisecond, time.Second: 100 * time.Millisecond, 5 * time.Millisecond: time.Millisecond,
	} {
		assert.Equal(t, timeout, programsTimeout(node.Limits{MaxTTL: maxTTL}))
	}
}
