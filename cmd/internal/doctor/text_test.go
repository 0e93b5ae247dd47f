package doctor

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/internal/rights"
)

// sick returns facts with all kinds of findings.
func sick() *Facts {
	f := healthy()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		n.Name = "redis-" + string(rune('a'+i)) + ":6379"
		n.Info.Value["redis_version"] = "7.0.15"
		n.Clock.Value = Offset{Ahead: 400 * time.Microsecond, Error: 200 * time.Microsecond}
		n.Trips = []time.Duration{400 * time.Microsecond, 400 * time.Microsecond, 1900 * time.Microsecond}
		delete(n.Info.Value, "maxmemory")
	}
	f.Nodes[0].Info.Value["maxmemory_policy"] = "allkeys-lru"
	f.Nodes[0].Info.Value["maxmemory"] = "0"
	f.Nodes[1].Clock.Value.Ahead = -700 * time.Millisecond
	f.Nodes[1].Trials = append(f.Nodes[1].Trials,
		Trial{Rule: rights.Inboxes, For: rights.ForWaiting, Verdict: Denied}, Trial{Rule: "+zadd", For: rights.ForWaiting, Verdict: Denied})
	f.Nodes[2].Unreached = errors.New("unreachable: dial tcp 10.0.0.3:6379: connect: connection refused")
	return f
}

// inWords returns the report for people.
func inWords(t *testing.T, facts *Facts) string {
	t.Helper()
	var printed strings.Builder
	require.NoError(t, Print(&printed, facts, facts.Report()))
	return printed.String()
}

// TestSample: the sample in the documentation equals the output.
func TestSample(t *testing.T) {
	printed := inWords(t, sick())
	document, err := os.ReadFile("../../../docs/doctor.md")
	require.NoError(t, err)
	if !strings.Contains(string(document), "\n```text\n"+printed+"```\n") {
		t.Errorf("docs/doctor.md has another sample than:\n%s", printed)
	}
	for line := range strings.Lines(printed) {
		assert.LessOrEqual(t, len([]rune(line))-1, text.Columns, line)
	}
}

// TestTextIsBrief: no time is printed as 0.0ms, no clock as -0.0ms ahead, and the names of all nodes are not repeated.
func TestTextIsBrief(t *testing.T) {
	facts := sick()
	for i := range facts.Nodes {
		n := &facts.Nodes[i]
		n.Unreached = nil
		n.Trips = []time.Duration{40 * time.Microsecond, 41 * time.Microsecond}
		n.Clock.Value.Ahead = -30 * time.Microsecond
		n.Info, n.Clock.Err = facts.Nodes[0].Info, nil
	}
	printed := inWords(t, facts)
	assert.NotContains(t, printed, " 0.0ms")
	assert.Contains(t, printed, "  <0.1ms      <0.1ms\n")
	assert.NotContains(t, printed, "-0.0")
	assert.NotContains(t, printed, "on redis-a:6379, redis-b:6379 and redis-c:6379")
	assert.Contains(t, printed, " on all 3 nodes\n")
}

// TestTextEscapes: text of a server cannot control the terminal.
func TestTextEscapes(t *testing.T) {
	facts := sick()
	facts.Nodes[0].Info.Value["redis_version"] = "7.0\x1b[2J"
	facts.Nodes[2].Unreached = errors.New("\x1b[2J\nerror")
	printed := inWords(t, facts)
	assert.NotContains(t, printed, "\x1b")
	assert.Contains(t, printed, `7.0\x1b[2J`)
	assert.NotContains(t, printed, "\nerror\n")
}

// TestCannotPrint: a report that cannot be written is a failure, and not a diagnosis.
func TestCannotPrint(t *testing.T) {
	facts := sick()
	require.Error(t, PrintJSON(broken{}, facts, facts.Report()))
	require.Error(t, Print(broken{}, facts, facts.Report()))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
