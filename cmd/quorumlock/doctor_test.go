//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// diagnosis is the output of doctor --json, as a script reads it.
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

// patiently is a flag with which neither an answer nor its absence of two seconds is a finding on a busy machine.
const patiently = "--node-timeout=3s"

// roundTrip is the check that reports slow answers.
const roundTrip = "round-trip"

// diagnose runs doctor as a separate process. It repeats that as long as one check finds something that may be true for a
// moment: a busy machine makes nodes slow. After ten times, the finding stays.
func diagnose(t *testing.T, passing string, env []string, args ...string) (d diagnosis) {
	t.Helper()
	for range 10 {
		if d = diagnoseOnce(t, env, args...); d.worse("error warning")[passing] == "" {
			break
		}
	}
	return d
}

func diagnoseOnce(t *testing.T, env []string, args ...string) (d diagnosis) {
	t.Helper()
	cmd := selfCommand(t, append([]string{"doctor", "--json", "--key", "job:a"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		d.code = exit.ExitCode()
	} else {
		require.NoError(t, err)
	}
	require.Empty(t, stderr.String())
	require.NoError(t, json.Unmarshal(out, &d), string(out))
	return d
}

// worse returns the checks with findings of a severity or a worse one, with all their text.
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

// healthy starts servers without findings.
func healthy(t *testing.T, opts ...redisproc.Option) fleet {
	t.Helper()
	servers := newFleet(t, 3, append([]redisproc.Option{redisproc.WithAOF()}, opts...)...)
	servers.open(t)
	return servers
}

// evicting makes the first and the third server evict keys.
func evicting(servers fleet) {
	for _, s := range []*redisproc.Server{servers[0], servers[2]} {
		s.Config("maxmemory-policy", "allkeys-lru")
		s.Config("maxmemory", "100mb")
	}
}

func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	servers := healthy(t)
	redisproc.Needs7(t, servers[0], "ACL DRYRUN")
	d := diagnose(t, roundTrip, nil, "--nodes", servers.nodes(), patiently)
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

	var r result
	for range 10 {
		if r = call(t, "doctor", "--nodes", servers.nodes(), "--key", "job:a", patiently); !strings.Contains(r.stdout, "an answer takes") {
			break
		}
	}
	assert.Zero(t, r.code)
	assert.True(t, strings.HasSuffix(r.stdout, "\n3 nodes: nothing is wrong\n"), r.stdout)
	assert.NotContains(t, r.stdout, "\x1b", "no colour but on a terminal")
}

// as creates a user with the documented rights and further rules, and returns addresses for it.
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

// TestDoctorWithTheDocumentedRightsOverTLS: a user with exactly the documented rights, over TLS with its own
// certificates, can check everything, and nothing is wrong.
func TestDoctorWithTheDocumentedRightsOverTLS(t *testing.T) {
	t.Parallel()
	servers := healthy(t, redisproc.WithTLS())
	nodes := servers.as(t, "-zcard")
	for _, s := range servers {
		nodes = strings.ReplaceAll(nodes, "redis://locker:secret@"+s.Addr(), "rediss://locker:secret@"+s.TLSAddr())
	}
	d := diagnose(t, roundTrip, []string{"SSL_CERT_FILE=" + servers[0].CAFile()}, "--nodes", nodes, patiently)
	assert.Zero(t, d.code)
	assert.Empty(t, d.worse("error warning unknown"))
	assert.Equal(t, map[string]string{"rights": "note " + d.Nodes[0].Node + " " + d.Nodes[1].Node + " " + d.Nodes[2].Node +
		": the user locker lacks rights for latches: +zcard\n" +
		"Grant them as an administrator, and save that: with ACL SAVE if the server has an ACL file, else with CONFIG REWRITE.\n" +
		"ACL SETUSER locker +zcard\n"}, d.worse("note"))

	// The printed command must fix the problem.
	for _, s := range servers {
		_, err := s.Command(strings.Fields("ACL SETUSER locker +zcard")...)
		require.NoError(t, err)
	}
	d = diagnose(t, roundTrip, []string{"SSL_CERT_FILE=" + servers[0].CAFile()}, "--nodes", nodes, patiently)
	assert.Equal(t, "ok", d.Severity)
}

// TestDoctorChangesNothing: even with all rights, the doctor writes no key, no setting, no right.
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
		diagnoseOnce(t, nil, "--nodes", nodes)
		assert.Equal(t, before, stateOf(t, servers[0]))
	}
}

// stateOf returns everything that a write would change on a server, and the number of writes.
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
		{"doctor --embedded 3", "--embedded has no effect here"},
		{"doctor --nodes a:b:c", "address 1: address does not parse"},
		{"doctor --nodes a --prefix q", "--prefix \"q\" and \"quorumlock:\", which is reserved, begin alike"},
		{"doctor --nodes a --key quorumlock:x", "is reserved"},
		{"doctor --nodes a --max-ttl 0s", "--max-ttl 0s is not positive"},
		{"doctor --nodes a --max-ttl 1s --max-clock-skew 1s", "--max-clock-skew 1s is over half of --max-ttl 1s"},
	} {
		r := call(t, strings.Fields(c.args)...)
		assert.Equal(t, exitFailure, r.code, c.args)
		assert.Contains(t, r.stderr, c.says)
		assert.Empty(t, r.stdout)
	}
}

// TestProgramsTimeout: as the comment of quorumlock.Config says.
func TestProgramsTimeout(t *testing.T) {
	for maxTTL, timeout := range map[time.Duration]time.Duration{
		time.Minute: 500 * time.Millisecond, 10 * time.Second: 500 * time.Millisecond, time.Second: 100 * time.Millisecond, 50 * time.Millisecond: 100 * time.Millisecond,
	} {
		assert.Equal(t, timeout, programsTimeout(node.Limits{MaxTTL: maxTTL}))
	}
}
