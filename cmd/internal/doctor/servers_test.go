package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// reportOf examines servers by their addresses. The timeouts are short, for servers that do not answer.
func reportOf(t *testing.T, addresses ...string) *Report {
	t.Helper()
	cfg := Config{Limits: limits, Timeout: time.Second, Patience: 2 * time.Second, Names: []string{"job:a"}}
	for _, address := range addresses {
		opt, err := node.ParseOptions(address)
		require.NoError(t, err)
		cfg.Nodes = append(cfg.Nodes, opt)
	}
	return Examine(t.Context(), cfg).Report()
}

// worse returns the findings of one check that are at least warnings.
func worse(r *Report, id string) (findings []Finding) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if c.ID == id && f.Severity >= Warning {
				findings = append(findings, f)
			}
		}
	}
	return findings
}

// errorsOf returns the checks that found errors.
func errorsOf(r *Report) (ids []string) {
	for _, c := range r.Checks {
		if c.Severity == Error {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func TestServerThatIsTooOld(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithProgram(redisproc.Fetched(t, redisproc.TooOld)))
	r := reportOf(t, server.Addr())
	require.Equal(t, []string{"version"}, errorsOf(r))
	assert.Equal(t, "the server is redis 6.2.5", worse(r, "version")[0].Found)
}

func TestServersThatAreNewEnough(t *testing.T) {
	for _, name := range []string{redisproc.Oldest, redisproc.NewestRedis, redisproc.NewestValkey} {
		t.Run(name, func(t *testing.T) {
			server := redisproc.Start(t, redisproc.WithProgram(redisproc.Fetched(t, name)))
			_, err := server.Command(strings.Fields(rights.SetUser("locker", "secret", "job:*"))...)
			require.NoError(t, err)
			opt, err := node.ParseAddress("redis://locker:secret@" + server.Addr())
			require.NoError(t, err)
			f := Examine(t.Context(), Config{Nodes: []node.Options{{ClientOption: opt}}, Limits: limits, Timeout: time.Second, Patience: 5 * time.Second})
			assert.Empty(t, errorsOf(f.Report()))
			assert.Equal(t, strings.ReplaceAll(name, "-", " "), f.Nodes[0].version())

			// The documented user may not run CLIENT SETINFO, and need not.
			log, err := server.Command("ACL", "LOG")
			require.NoError(t, err)
			assert.NotContains(t, log, "setinfo")
		})
	}
}

func TestScriptsThatAreReplicated(t *testing.T) {
	program := redisproc.WithProgram(redisproc.Fetched(t, redisproc.Oldest))
	server := redisproc.Start(t, program, redisproc.WithArgs("--lua-replicate-commands", "no"))
	found := worse(reportOf(t, server.Addr()), "lua")
	require.Len(t, found, 1)
	for _, command := range found[0].Commands[:1] {
		_, err := server.Command(strings.Fields(command)...)
		require.NoError(t, err)
	}
	assert.Empty(t, worse(reportOf(t, server.Addr()), "lua"))
}

// TestServerWithoutInfo: a missing INFO is not a missing EVAL or SUBSCRIBE, whose trials needed it once.
func TestServerWithoutInfo(t *testing.T) {
	for name, opt := range map[string]redisproc.Option{
		"unknown": redisproc.WithArgs("--rename-command", "INFO", ""),
		"denied":  redisproc.WithACL("user default on nopass ~* &* +@all -info"),
	} {
		t.Run(name, func(t *testing.T) {
			r := reportOf(t, redisproc.Start(t, opt).Addr())
			assert.Equal(t, []string{"rights"}, errorsOf(r))
			found := worse(r, "rights")
			require.Len(t, found, 1)
			assert.Contains(t, strings.ToLower(found[0].Found), "info")
		})
	}
}

// TestServerWithoutConfig: there is no advice to run a command that the server does not know.
func TestServerWithoutConfig(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithArgs("--rename-command", "CONFIG", "", "--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"))
	found := worse(reportOf(t, server.Addr()), "eviction")
	require.Len(t, found, 1)
	assert.Empty(t, found[0].Commands)
	assert.Contains(t, found[0].Do, "no CONFIG")
}

// TestTLSToAPlainPort: the report tells it apart from a server that hangs.
func TestTLSToAPlainPort(t *testing.T) {
	for _, opts := range [][]redisproc.Option{nil, {redisproc.WithPassword("secret")}} {
		found := worse(reportOf(t, "rediss://"+redisproc.Start(t, opts...).Addr()), "reachable")
		require.NotEmpty(t, found)
		assert.Contains(t, found[0].Found, "does not speak TLS at this port")
		assert.Contains(t, found[0].Do, "redis:// instead of rediss://")
	}
	hung := redisproc.Start(t)
	hung.Pause()
	assert.NotContains(t, worse(reportOf(t, "rediss://"+hung.Addr()), "reachable")[0].Found, "does not speak TLS")
}

// TestServerWithoutClient: a managed service may forbid CLIENT. That is a warning, and one page says what follows.
func TestServerWithoutClient(t *testing.T) {
	found := worse(reportOf(t, redisproc.Start(t, redisproc.WithArgs("--rename-command", "CLIENT", "")).Addr()), "rights")
	require.Len(t, found, 1)
	assert.Equal(t, Warning, found[0].Severity)
	assert.Contains(t, found[0].Found, "CLIENT KILL")
	assert.Contains(t, found[0].Do, "docs/where-it-runs.md")
}
