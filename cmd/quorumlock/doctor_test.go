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

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// diagnosis is the output of doctor --json, as a script reads it.
type diagnosis struct {
	Severity string
	Nodes    []map[string]any
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

// diagnose runs doctor as a separate process. It repeats that as long as answers are slow, which they may be for a moment
// on a busy machine. After ten times, the finding stays.
func diagnose(t *testing.T, env []string, args ...string) (d diagnosis) {
	t.Helper()
	for range 10 {
		if d = diagnoseOnce(t, env, args...); d.worse("error warning")["round-trip"] == "" {
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
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		d.code = failed.ExitCode()
	} else {
		require.NoError(t, err)
	}
	require.Empty(t, stderr.String())
	require.NoError(t, json.Unmarshal(out, &d), string(out))
	for _, n := range d.Nodes {
		require.ElementsMatch(t, strings.Fields("node reached version role user clock_ms clock_error_ms round_trip_ms slowest_ms"), fields(n))
	}
	return d
}

// worse returns the checks with findings of these severities, with all their text.
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

// TestDoctor: the exit code tells the worst finding.
func TestDoctor(t *testing.T) {
	t.Parallel()
	servers := healthy(t)
	redisproc.Needs7(t, servers[0], "scripts that may not write")
	d := diagnose(t, nil, "--nodes", servers.nodes(), patiently)
	assert.Zero(t, d.code)
	assert.Equal(t, "ok", d.Severity)
	assert.Empty(t, d.worse("error warning note unknown"))
	for i, n := range d.Nodes {
		assert.Equal(t, servers[i].Addr(), n["node"])
		assert.Equal(t, true, n["reached"])
		assert.Equal(t, "master", n["role"])
		assert.InDelta(t, 0, n["clock_ms"], 500)
		assert.Positive(t, n["round_trip_ms"])
	}

	var r result
	for range 10 {
		if r = servers.call(t, "doctor --key job:a "+patiently); !strings.Contains(r.stdout, "an answer takes") {
			break
		}
	}
	assert.Zero(t, r.code)
	assert.True(t, strings.HasSuffix(r.stdout, "\n3 nodes: nothing is wrong with them\nNo check can see programs whose lists share no node with this one.\n"), r.stdout)

	evicting(servers)
	assert.Equal(t, exit.Errors, servers.call(t, "doctor "+patiently).code)
	assert.Equal(t, exit.Warnings, servers.call(t, "doctor --allow-eviction "+patiently).code)
	r = servers.call(t, "doctor --prefix billing: --key job:a "+patiently)
	assert.Contains(t, r.stdout, "maxmemory-policy is allkeys-lru")
}

// as creates a user with the documented rights and further rules, and returns addresses for it.
func (f fleet) as(t *testing.T, rules ...string) string {
	t.Helper()
	f.command(t, append(strings.Fields(rights.SetUser("locker", "secret", "job:*")), rules...)...)
	return "redis://locker:secret@" + strings.ReplaceAll(f.nodes(), ",", ",redis://locker:secret@")
}

// TestDoctorWithTheDocumentedRightsOverTLS: a user with exactly the documented rights, over TLS with its own
// certificates, can check everything, and nothing is wrong. Names are checked with their prefix.
func TestDoctorWithTheDocumentedRightsOverTLS(t *testing.T) {
	t.Parallel()
	servers := healthy(t, redisproc.WithTLS())
	nodes := servers.as(t, "-zcard")
	for _, s := range servers {
		nodes = strings.ReplaceAll(nodes, "redis://locker:secret@"+s.Addr(), "rediss://locker:secret@"+s.TLSAddr())
	}
	env := []string{"SSL_CERT_FILE=" + servers[0].CAFile()}
	d := diagnose(t, env, "--nodes", nodes, patiently)
	assert.Zero(t, d.code)
	assert.Empty(t, d.worse("error warning unknown"))
	assert.Equal(t, map[string]string{"rights": "note " + strings.Join([]string{servers[0].TLSAddr(), servers[1].TLSAddr(), servers[2].TLSAddr()}, " ") +
		": the user locker lacks rights for latches: +zcard\n" +
		"Grant them as an administrator, and save that: with ACL SAVE if the server has an ACL file, else with CONFIG REWRITE.\n" +
		"ACL SETUSER locker +zcard\n"}, d.worse("note"))

	servers.command(t, strings.Fields("ACL SETUSER locker +zcard")...) // the printed command must fix the problem
	d = diagnose(t, env, "--nodes", nodes, patiently)
	assert.Equal(t, "ok", d.Severity)
	d = diagnose(t, env, "--nodes", nodes, "--prefix", "billing:", patiently)
	assert.Contains(t, d.worse("error")["rights"], "ACL SETUSER locker ~billing:job:a")
}

// TestDoctorChangesNothing: even with all rights, the doctor writes no key, no setting, no right.
func TestDoctorChangesNothing(t *testing.T) {
	t.Parallel()
	servers := healthy(t)
	servers[:1].command(t, "SADD", "job:a", "m") // even at the name that is asked about
	documented := servers.as(t)
	servers.command(t, strings.Fields("ACL SETUSER mighty on >secret ~* &* +@all -acl")...)
	before := stateOf(t, servers[0])
	for _, nodes := range []string{servers.nodes(), documented, strings.ReplaceAll(documented, "locker", "mighty")} {
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

// TestProgramsTimeout: as the comment of quorumlock.Config says.
func TestProgramsTimeout(t *testing.T) {
	for maxTTL, timeout := range map[time.Duration]time.Duration{
		time.Minute: 500 * time.Millisecond, 10 * time.Second: 500 * time.Millisecond, time.Second: 100 * time.Millisecond, 50 * time.Millisecond: 100 * time.Millisecond,
	} {
		assert.Equal(t, timeout, programsTimeout(node.Limits{MaxTTL: maxTTL}))
	}
}
