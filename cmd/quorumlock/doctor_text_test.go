//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/node"
)

// sick returns facts with all kinds of findings.
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
	f.Nodes[0].Info.Value["maxmemory"] = "104857600"
	f.Nodes[0].Info.Value["aof_enabled"] = "0"
	f.Nodes[1].Clock.Value.Ahead = -700 * time.Millisecond
	f.Nodes[1].Trials = append(f.Nodes[1].Trials,
		doctor.Trial{Rule: "&quorumlock:inbox:*", For: rights.ForWaiting, Verdict: doctor.Denied},
		doctor.Trial{Rule: "+zadd", For: rights.ForWaiting, Verdict: doctor.Denied})
	f.Nodes[2] = doctor.Node{Name: "redis-c:6379", User: "locker", Unreached: errors.New("unreachable: dial tcp 10.0.0.3:6379: connect: connection refused")}
	return f
}

// inWords returns the report for people.
func inWords(t *testing.T, facts *doctor.Facts, colour bool) string {
	t.Helper()
	var printed strings.Builder
	require.NoError(t, (&doctorText{w: &printed, colour: colour}).print(facts, facts.Report()))
	return printed.String()
}

// TestDoctorSample: the sample in the documentation equals the output.
func TestDoctorSample(t *testing.T) {
	printed := inWords(t, sick(), false)
	text, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	if !strings.Contains(string(text), "\n```text\n"+printed+"```\n") {
		t.Errorf("docs/doctor.md has another sample than:\n%s", printed)
	}
	for line := range strings.Lines(printed) {
		assert.LessOrEqual(t, len([]rune(line))-1, helpColumns, line)
	}
}

// TestDoctorIsBrief: no time is printed as 0.0ms, no clock as -0.0ms ahead, and the names of all nodes are not
// repeated.
func TestDoctorIsBrief(t *testing.T) {
	facts := sick()
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		n.Unreached = nil
		n.Trips = []time.Duration{40 * time.Microsecond, 41 * time.Microsecond}
		n.Clock.Value.Ahead = -30 * time.Microsecond
		n.Info, n.Clock.Err = facts.Nodes[0].Info, nil
	}
	printed := inWords(t, facts, false)
	assert.NotContains(t, printed, " 0.0ms")
	assert.Contains(t, printed, "  <0.1ms      <0.1ms\n")
	assert.NotContains(t, printed, "-0.0")
	assert.NotContains(t, printed, "on redis-a:6379, redis-b:6379 and redis-c:6379")
	assert.Contains(t, printed, " on all 3 nodes\n")
}

func TestDoctorColours(t *testing.T) {
	plain, coloured := inWords(t, sick(), false), inWords(t, sick(), true)
	assert.Contains(t, coloured, "\x1b[1;31merror\x1b[0m eviction on redis-a:6379\n")
	assert.Equal(t, plain, strings.NewReplacer("\x1b[1;31m", "", "\x1b[1;33m", "", "\x1b[1;36m", "", "\x1b[0m", "").Replace(coloured))
}

// TestDoctorEscapes: text of a server cannot control the terminal.
func TestDoctorEscapes(t *testing.T) {
	facts := sick()
	facts.Nodes[0].Info.Value["redis_version"] = "7.0\x1b[2J"
	facts.Nodes[2].Unreached = errors.New("\x1b[2J\nerror")
	printed := inWords(t, facts, false)
	assert.NotContains(t, printed, "\x1b")
	assert.Contains(t, printed, `7.0\x1b[2J`)
	assert.NotContains(t, printed, "\nerror\n")
}

// TestDoctorCannotPrint: a report that cannot be written is a failure, and not a diagnosis.
func TestDoctorCannotPrint(t *testing.T) {
	facts := sick()
	require.Error(t, printDoctorJSON(broken{}, facts, facts.Report()))
	require.Error(t, (&doctorText{w: broken{}}).print(facts, facts.Report()))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
