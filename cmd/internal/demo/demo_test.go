package demo

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, Play(t.Context(), &out, quiet), out.String())
	text := out.String()

	rest := text
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
		`nodes  node-3, node-4 and node-5 started again`,
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
		require.True(t, found, "%q is missing, or not in its place:\n%s", claim, text)
		rest = after
	}
	tokens, times := numbers(t, `token is (\d+)`, text), numbers(t, `(?m)^ *(\d+\.\d\d) s  (?:A|B|nodes) `, text)
	assert.Len(t, tokens, 4)
	assert.Len(t, slices.Compact(slices.Clone(tokens)), 4)
	assert.True(t, slices.IsSorted(tokens))
	assert.True(t, slices.IsSorted(times))
	requireExplained(t, text)
}

func numbers(t *testing.T, pattern, text string) (all []float64) {
	t.Helper()
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		all = append(all, n)
	}
	require.NotEmpty(t, all)
	return all
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

// TestDemoFailsLoudly: after an unexpected event, the demo does not claim success.
func TestDemoFailsLoudly(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 700*time.Millisecond, assert.AnError)
	defer cancel()
	var out bytes.Buffer
	require.ErrorContains(t, Play(ctx, &out, quiet), "the demo failed: expected that ")
	assert.NotContains(t, out.String(), "Seen:")
}

// TestDemoNotices plays steps that must not succeed.
func TestDemoNotices(t *testing.T) {
	for name, c := range map[string]struct {
		play     func(s *stage)
		expected string
	}{
		"a lock that is lost": {func(s *stage) {
			for _, n := range s.nodes[:3] {
				n.Stop()
			}
			s.takes()
		}, "expected that A gets the free lock, but: "},
		"a token that does not grow": {func(s *stage) { s.takes(); s.granted(s.a, s.held) }, "expected that tokens grow, but: "},
		"an open node that forgot":   {(*stage).isKeptOut, "expected that B is refused"}, // without a recovery, B would get A's lock
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newStage(t.Context(), io.Discard, quiet)
			require.NoError(t, err)
			defer s.close(t.Context())
			require.ErrorContains(t, s.attempt(func() { c.play(s) }), c.expected)
		})
	}
}
