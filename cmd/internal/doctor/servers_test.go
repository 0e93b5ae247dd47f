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

func TestServersThatAreNewEnough(t *testing.T) {
	for _, name := range []string{redisproc.Oldest, redisproc.NewestRedis, redisproc.NewestValkey} {
		t.Run(name, func(t *testing.T) {
			server := redisproc.Start(t, redisproc.WithProgram(redisproc.Fetched(t, name)))
			_, err := server.Command(strings.Fields(rights.SetUser("locker", "secret", "job:*"))...)
			require.NoError(t, err)
			opt, err := node.ParseOptions("redis://locker:secret@" + server.Addr())
			require.NoError(t, err)
			f := Examine(t.Context(), Config{Nodes: []node.Options{opt}, Limits: limits, Timeout: time.Second, Patience: 5 * time.Second})
			assert.Less(t, f.Report().Severity, Error)
			assert.Equal(t, strings.ReplaceAll(name, "-", " "), f.Nodes[0].version())

			// The documented user may not run CLIENT SETINFO, and need not.
			log, err := server.Command("ACL", "LOG")
			require.NoError(t, err)
			assert.NotContains(t, log, "setinfo")
		})
	}
}

// TestServerWithoutConfig: there is no advice to run a command that the server does not know.
func TestServerWithoutConfig(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithArgs("--rename-command", "CONFIG", "", "--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"))
	opt, err := node.ParseOptions(server.Addr())
	require.NoError(t, err)
	opt.AllowEviction = true
	found := worse(Examine(t.Context(), Config{Nodes: []node.Options{opt}, Limits: limits, Timeout: time.Second, Patience: 2 * time.Second}).Report(), "eviction")
	require.Len(t, found, 1)
	assert.Empty(t, found[0].Commands)
	assert.Contains(t, found[0].Do, "no CONFIG")
}
