package measure

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "observability.md"))
	require.NoError(t, err)
	return string(text)
}

// TestEveryInstrumentIsDocumented: the table has each metric with all of its attributes, and no other.
func TestEveryInstrumentIsDocumented(t *testing.T) {
	type row struct {
		kind, unit string
		keys       []string
	}
	kinds := map[Kind]string{Seconds: "histogram", Counter: "counter", Level: "updowncounter", Gauge: "gauge"}
	documented := make(map[string]row)
	pattern := regexp.MustCompile("(?m)^\\| `(quorumlock[a-z_.]+)` \\| ([a-z]+) \\| ([a-z{}]+) \\| ([^|]*) \\|")
	for _, m := range pattern.FindAllStringSubmatch(documentation(t), -1) {
		r := row{kind: m[2], unit: m[3]}
		for _, key := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(m[4], -1) {
			r.keys = append(r.keys, key[1])
		}
		if strings.HasSuffix(m[4], "group") {
			r.keys = append(r.keys, keyGroup)
		}
		slices.Sort(r.keys)
		documented[m[1]] = r
	}
	made := make(map[string]row)
	for _, i := range Instruments {
		made[i.Name] = row{kinds[i.Kind], i.Unit, slices.Sorted(slices.Values(i.Keys))}
	}
	require.Equal(t, made, documented)
}

// values returns the values in a row of the table of attributes.
func values(t *testing.T, attribute string) []string {
	t.Helper()
	for line := range strings.Lines(documentation(t)) {
		if rest, ok := strings.CutPrefix(line, "| "+attribute+" | "); ok {
			var words []string
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(rest, -1) {
				words = append(words, m[1])
			}
			slices.Sort(words)
			return words
		}
	}
	require.Fail(t, "the table has no row for the attribute", attribute)
	return nil
}

func TestEveryValueIsDocumented(t *testing.T) {
	var calls, votes, over []string
	for _, f := range failures {
		calls = append(calls, f.kind)
	}
	for _, reason := range reasons {
		votes = append(votes, reason)
	}
	for _, e := range ends {
		over = append(over, e.end)
	}
	for _, cause := range []quorumlock.LossCause{quorumlock.LossUnconfirmed, quorumlock.LossExpired, quorumlock.LossForced, quorumlock.LossTaken, quorumlock.LossGone} {
		over = append(over, string(cause))
	}
	for attribute, want := range map[string][]string{
		"`error.type` of calls and rounds": calls,
		"`error.type` of votes":            votes,
		"`quorumlock.lease.end`":           over,
	} {
		slices.Sort(want)
		require.Equal(t, want, values(t, attribute), attribute)
	}
}
