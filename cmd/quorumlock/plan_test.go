//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/internal/decision"
)

// Each step of a plan may stand beside the one before, and no list is shorter than both ends.
func TestSteps(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"a b c", "a b c d e", "a b c d; a b c d e"},
		{"a b c d e", "a b c", "a b c e; a b c"},
		{"a b c", "a b d", "a b c d; a b d"},
		{"a b c", "d e f", "a b c d; b c d; b c d e; c d e; c d e f; d e f"},
		{"a b c d e", "f b a", "a b c d e f; a b d e f; a b e f; a b f"},
		{"a b c", "c b a", ""},
	} {
		var lists []string
		list := strings.Fields(c.from)
		for _, s := range steps(list, strings.Fields(c.to)) {
			common := 0
			for _, name := range list {
				if slices.Contains(s.list, name) {
					common++
				}
			}
			require.True(t, decision.ListsAgree(len(list), len(s.list), common))
			list = s.list
			lists = append(lists, strings.Join(list, " "))
		}
		assert.Equal(t, c.want, strings.Join(lists, "; "))
		assert.ElementsMatch(t, strings.Fields(c.to), list)
	}
}

func TestPlan(t *testing.T) {
	r := call(t, "nodes", "plan", "a:1,b:1,redis://u:secret@c:1", "a:1,b:1,d:1", "--max-ttl", "20s")
	require.Equal(t, exit.OK, r.code, r.stderr)
	assert.Equal(t, `Lists have names of nodes: where an address is more, with a user, TLS or a tag, put that.

1. Add d:1: give all programs this list, in any order, with AllowEven.

     a:1,b:1,c:1,d:1

   When the last one has it, wait for 1m3s, and until this exits with 0:

     quorumlock ready --multi --max-ttl 20s --max-clock-skew 1s --allow-even --nodes a:1,b:1,c:1,d:1

2. Remove c:1: give all programs this list, in any order.

     a:1,b:1,d:1

   When the last one has it, wait for 1m3s. That node may be stopped.

Latches, windows of Once and sizes set by SetPermits outlast one step and not two: see docs/on-call.md.
`, r.stdout)
	r = call(t, "nodes", "plan", "a:1,b:1", "a:1,rediss://u:secret@b:1,redis://c:7000?tag=x")
	assert.Contains(t, r.stdout, "     a:1,b:1,{x}@c:7000\n")
	assert.True(t, strings.HasPrefix(r.stdout, "Lists have names of nodes: where an address is more, with a user, TLS or a tag, put that."), r.stdout)
	for args, says := range map[string]string{
		"nodes plan a:1":              "accepts 2 arg(s)",
		"nodes plan a:1,b:1 b:1,a:1":  "both lists have the same nodes",
		"nodes plan a:1,a:1 b:1":      "a:1 is in a list twice",
		"nodes plan a:1 http://x":     "address does not parse",
		"nodes plan a b --max-ttl 0s": "--max-ttl 0s is not positive",
	} {
		r := call(t, strings.Fields(args)...)
		assert.Equal(t, exit.Failure, r.code, args)
		assert.Contains(t, r.stderr, says)
	}
}

// While the nodes change, status shows the older list and how long it counts, and doctor tells a change from a mistake.
func TestListsInUseAreShown(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 5)
	servers[:3].open(t)
	servers[:3].hold(t)
	own, next := servers[:3].status(t, exit.OK, "k"), servers[:4].call(t, "status --allow-even k").stdout
	assert.NotContains(t, own, "LIST OF NODES")
	assert.Regexp(t, `LIST OF NODES IN USE +MAX TTL +MAX SKEW +RECOVERY +LAST BY +KNOWN TO +COUNTS FOR\n\S+, \S+, \S+ +10s +1s +11s +\S+ +3/4 +\S+\n$`, next)

	found := func(f fleet) (severity, text string) {
		d := diagnose(t, nil, patiently, "--allow-even", "--nodes", f.nodes())
		for _, c := range d.Checks {
			if c.ID == "lists" && len(c.Findings) > 0 {
				return c.Severity, c.Findings[0].Found
			}
		}
		return "ok", ""
	}
	severity, _ := found(servers[:3])
	assert.Equal(t, "ok", severity)
	severity, said := found(servers[:4])
	assert.Equal(t, "note", severity)
	assert.Contains(t, said, "3 nodes know it")
	severity, said = found(servers)
	assert.Equal(t, "error", severity)
	assert.Contains(t, said, servers[2].Addr())
}
