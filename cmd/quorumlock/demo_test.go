package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := call(t, "demo")
	require.Zero(t, r.code, r.stdout+r.stderr)
	assert.Less(t, time.Since(began), demoBound)
	assert.Empty(t, r.stderr)
	assert.NotContains(t, r.stdout, "\x1b", "no colours but on a terminal")

	rest := r.stdout
	for _, claim := range []string{
		`A      takes "report" in `, `; its token is `,
		`B      is refused: held by `, `, which is A, for another `,
		`B      waits`,
		`A      renews: valid for another `, `backed by 5 of 5 nodes`,
		`nodes  node-4 and node-5 stopped`,
		`A      renews: valid for another `, `backed by 3 of 5 nodes` + "\n",
		`A      still holds "report", B still waits: three of five are enough`,
		`A      releases the lock`,
		`B      has it `, ` after A let go, backed by 3 of 5 nodes; its token is `, `, which is larger`,
		`nodes  node-3 stopped`,
		`B      cannot renew, as node-3, node-4 and node-5 do not answer`,
		`B      lost the lease`, `no quorum of nodes confirmed a renewal in time`,
		`nodes  node-3 kept its key for B `, ` longer than the lease lasted`,
		`nodes  node-3 and node-4 started again`,
		`A      asks for "stock" and "orders" on every node, and is refused: node-5 is unreachable`,
		`nodes  node-5 started again`,
		`A      takes "stock" and "orders" in one step, in `, `on 5 of 5 nodes`,
		`no key is left on any node`,
		`A      takes "report" in `,
		`nodes  node-1, node-2 and node-3 restart with an empty memory`,
		`B      is refused all the same: the three know that they have forgotten something, and give no locks for 2.`,
		`B      waits`,
		`A      renews, which puts the lock back on node-1, node-2 and node-3`,
		`A      renews: valid for another `, `backed by 5 of 5 nodes` + "\n",
		`nodes  node-1, node-2 and node-3 give locks again`,
		`A      still holds "report", backed by all 5 nodes, and B still waits`,
		`A      releases the lock`,
		`B      has it; its token is `, `, the largest of all 4`,
		"\nSeen: ", "\na lease that was over ", "\nthat forgot the lock", "\nNext: ",
	} {
		_, after, found := strings.Cut(rest, claim)
		require.True(t, found, "%q is missing, or not in its place:\n%s", claim, r.stdout)
		rest = after
	}
	assert.Equal(t, 4, strings.Count(r.stdout[strings.Index(r.stdout, "\nSeen: ")+1:], "\n"), "the summary has four lines")
	requireGrowingTokens(t, r.stdout)
	requireInOrder(t, r.stdout)
	requireExplained(t, r.stdout)
}

// requireExplained checks that lines which count stopped nodes as backing a lease explain it.
func requireExplained(t *testing.T, text string) {
	t.Helper()
	_, text, _ = strings.Cut(text, "node-4 and node-5 stopped")
	text, _, _ = strings.Cut(text, "A hands over")
	for line := range strings.Lines(text) {
		for have, before := range map[string]string{"5": "2", "4": "1"} {
			if strings.Contains(line, "backed by "+have+" of 5") {
				assert.Contains(t, line, "("+before+" by what they confirmed before)")
			}
		}
	}
}

// requireGrowingTokens checks the tokens that the time line shows for one lock.
func requireGrowingTokens(t *testing.T, text string) {
	t.Helper()
	var last uint64
	tokens := regexp.MustCompile(`token is (\d+)`).FindAllStringSubmatch(text, -1)
	require.Len(t, tokens, 4)
	for _, match := range tokens {
		token, err := strconv.ParseUint(match[1], 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last)
		last = token
	}
}

// requireInOrder checks that the times of a time line do not decrease.
func requireInOrder(t *testing.T, text string) {
	t.Helper()
	last := 0.0
	for _, match := range regexp.MustCompile(`(?m)^ *(\d+\.\d\d) s  (A|B|nodes) `).FindAllStringSubmatch(text, -1) {
		seconds, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, seconds, last)
		last = seconds
	}
	require.Positive(t, last)
}

// TestDemoFailsLoudly: after an unexpected event, the demo must not claim success.
func TestDemoFailsLoudly(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 700*time.Millisecond, assert.AnError)
	defer cancel()
	r := callWith(ctx, "demo", "-v")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, "the demo failed: expected that ")
	assert.NotContains(t, r.stdout, "Seen:")
}

func TestDemoNoticesALostLock(t *testing.T) {
	var out bytes.Buffer
	s, err := newStage(t.Context(), &app{stdout: &out})
	require.NoError(t, err)
	defer s.close(t.Context())
	for _, n := range s.nodes[:3] {
		n.Stop()
	}
	err = s.attempt(s.takes)
	require.ErrorContains(t, err, "expected that A gets the free lock, but: ")
	assert.Empty(t, out.String())
}

func TestDemoNoticesATokenThatDoesNotGrow(t *testing.T) {
	var out bytes.Buffer
	s, err := newStage(t.Context(), &app{stdout: &out})
	require.NoError(t, err)
	defer s.close(t.Context())
	require.NoError(t, s.attempt(s.takes))
	require.ErrorContains(t, s.attempt(func() { s.granted(s.held) }), "expected that tokens grow, but: ")
}

// Without the recovery, B would acquire the lock while A holds it.
func TestDemoNoticesAnOpenNodeThatForgot(t *testing.T) {
	var out bytes.Buffer
	s, err := newStage(t.Context(), &app{stdout: &out})
	require.NoError(t, err)
	defer s.close(t.Context())
	err = s.attempt(s.isKeptOut)
	require.ErrorContains(t, err, "expected that B is refused")
}

func TestTimelineColours(t *testing.T) {
	var out bytes.Buffer
	line := newTimeline(&out)
	line.tell("A", colourA, "does %d things", 2)
	assert.Equal(t, "  0.00 s  A      does 2 things\n", out.String())

	out.Reset()
	line.colour = true
	line.tell("A", colourA, "does it")
	line.tell("A", "", "does it")
	line.chapter("Title")
	assert.Equal(t, "  0.00 s  \x1b[1;36mA    \x1b[0m  does it\n  0.00 s  A      does it\n\n\x1b[1mTitle\x1b[0m\n", out.String())
}

func TestColoursAreForTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	assert.False(t, wantsColour(&bytes.Buffer{}))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	assert.False(t, wantsColour(w))
}
