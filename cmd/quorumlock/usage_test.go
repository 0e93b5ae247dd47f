package main

import (
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

func TestHelpExplainsExitCodes(t *testing.T) {
	for _, command := range [][]string{{"--help"}, {"run", "--help"}} {
		r := call(t, command...)
		assert.Zero(t, r.code)
		assert.Contains(t, r.stdout, exit.Help)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"frob", `unknown command "frob"`},
		{"--frob", "unknown flag"},
		{"demo x", "unknown command"},
		{"init", "no nodes: give --nodes"},
		{"init x --nodes a", "unknown command"},
		{"init --embedded 3", "--embedded has no effect here"},
		{"init --nodes a,b", "use an odd number, or set --allow-even\nTry 'quorumlock init --help'."},
		{"init --nodes a,a,b", "listed twice"},
		{"init --nodes redis://user:secret@b:x", "address 1: "},
		{"init --nodes a --max-ttl 1s --max-clock-skew 600ms", "--max-clock-skew 600ms is over half of --max-ttl 1s"},
		{"init --nodes a --max-clock-skew 0s", "--max-clock-skew 0s is not positive"},
		{"init --nodes a --node-timeout -1s", "--node-timeout -1s is not positive"},
		{"status k --embedded 3", "nodes in memory have no locks of others\nTry 'quorumlock status --help'."},
		{"status --embedded 3", "no KEY: the lock needs a name\nTry 'quorumlock status --help'."},
		{"status k", "no nodes: give --nodes host:port,... (or set QUORUMLOCK_NODES), or --embedded N"},
		{"run --key k --embedded 0 -- true", "at least one node"},
		{"status k --nodes a,b", "use an odd number, or set --allow-even\nTry 'quorumlock status --help'."},
		{"run --key k --embedded 3 --nodes a -- true", "--nodes and --embedded exclude each other"},
		{"status k --nodes a,,b", "address 2: empty address"},
		{"status k --nodes a,", "address 2: empty address"},
		{"status k --nodes a --node-timeout -1s", "--node-timeout -1s is not positive\nTry 'quorumlock status --help'."},
		{"status k --nodes a --max-ttl 0s", "--max-ttl 0s is not positive"},
		{"status quorumlock:k --nodes a", "reserved"},
		{"release k --embedded 3", "refused without --force: the holder may be alive"},
		{"release --force --embedded 3", "no KEY: the lock needs a name"},
		{"ready --nodes a --wait -1s", "--wait -1s is negative"},
		{"latch set l --embedded 3", "accepts 2 arg(s), received 1\nTry 'quorumlock latch set --help'."},
		{"latch set l x --embedded 3", `COUNT "x" is not a number`},
		{"latch wait l --embedded 3", `unknown command "wait" for "quorumlock latch"`},
		{"latch set l 0 --embedded 3", "a latch cannot be set to 0"},
		{"latch await quorumlock:l --embedded 3", "reserved"},
		{"latch await l --wait -1s --embedded 3", "--wait -1s is negative"},
		{"latch down l id --wait 0s --embedded 3", "--wait 0s leaves no time"},
		{"latch await l --ttl 1s --embedded 3", "TTL 1s of a latch is under 10s"},
		{"run --embedded 3 --key k", "no command to run"},
		{"run --embedded 3 -- true", "no --key"},
		{"run --key k -- true", "no nodes"},
		{"run --key k --embedded 3 --wait -1s -- true", "--wait -1s is negative"},
		{"run --key k --embedded 3 --wait x -- true", "invalid argument"},
		{"run --key k --embedded 3 --max-hold -1s -- true", "--max-hold -1s is negative"},
		{"run --key k --embedded 3 --min-hold -1s -- true", "--min-hold -1s is negative"},
		{"run --key k --embedded 3 --min-hold 2s --max-hold 1s -- true", "--min-hold 2s is over --max-hold 1s"},
		{"run --key k --embedded 3 --min-hold 10s -- true", "--min-hold 10s is over 9.898s"},
		{"run --key k --embedded 3 --kill-after -1s -- true", "--kill-after -1s is negative"},
		{"run --key k --embedded 3 --kill-after 4s -- true", "--kill-after 4s is over a third of the TTL (3.333s)"},
		{"run --key k --embedded 3 --ttl 20s -- true", "TTL 20s is over --max-ttl 10s (raise --max-ttl"},
		{"run --key k --embedded 3 --ttl 20s -- true", "Try 'quorumlock run --help'."},
		{"run --key k --embedded 3 --ttl -1s -- true", "--ttl -1s is not positive\nTry 'quorumlock run --help'."},
		{"run --key k --embedded 3 --ttl 1s --node-timeout 500ms -- true", "TTL 1s is too small for --node-timeout 500ms"},
		{"run --key k --key j --embedded 3 -- true", "2 keys need --majority or --multi"},
		{"run --key k --key j --multi --majority --embedded 3 -- true", "--multi and --majority exclude each other"},
		{"run --key k --key j --majority --read --embedded 3 -- true", "--read and --of are for one key"},
		{"run --key k --key k --majority --embedded 3 -- true", `"k" is joined with itself`},
		{"run --key k --read --of 3 --embedded 3 -- true", "exclude each other"},
		{"run --key k --permits 2 --embedded 3 -- true", "--permits needs --of"},
		{"run --key k --of 3 --permits 4 --embedded 3 -- true", "4 permits requested, the semaphore has 3"},
		{"run --key k --of -1 --embedded 3 -- true", "--of -1 is negative"},
		{"run --key k --key k --multi --embedded 3 -- true", `"k" is listed twice`},
		{"run --key quorumlock:k --embedded 3 -- true", "reserved"},
		{"doctor", "no nodes: give --nodes"},
		{"doctor x --nodes a", "unknown command"},
		{"doctor --embedded 3", "--embedded has no effect here"},
		{"doctor --nodes a:b:c", "address 1: address does not parse"},
		{"doctor --nodes a --prefix q", "--prefix \"q\" and \"quorumlock:\", which is reserved, begin alike"},
		{"doctor --nodes a --key quorumlock:x", "is reserved"},
		{"doctor --nodes a --max-ttl 0s", "--max-ttl 0s is not positive"},
		{"doctor --nodes a --max-ttl 1s --max-clock-skew 1s", "--max-clock-skew 1s is over half of --max-ttl 1s"},
		{"run --embedded 1 --allow-eviction --key k -- true", "--allow-eviction has no effect here"},
		{"run --embedded 1 --allow-unseen-losses --key k -- true", "--allow-unseen-losses has no effect here"},
		{"run --key k --nodes redis://a:1?tag=x,redis://b:1?tag=y,c:1 -- true", "tag"},
		{"status k --nodes redis://a:1?tag=x,redis://b:1?tag=y,c:1", "tag"},
		{"init --prefix {z}: --nodes redis://a:1?tag=x", "tag"},
		{"top --scan -1", "--scan -1 is negative"},
		{"top --scan 0", "--scan 0 needs the names of locks"},
		{"top --embedded 3", "nodes in memory have no locks of others"},
		{"top --node-timeout 0s", "--node-timeout 0s is not positive"},
		{"top", "no nodes: give --nodes"},
		{"top --nodes http://x", "address 1"},
		{"top --nodes http://x", "Try 'quorumlock top --help'."},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := call(t, strings.Fields(c.args)...)
			assert.Equal(t, exit.Failure, r.code)
			assert.Contains(t, r.stderr, c.says)
			assert.NotContains(t, r.stderr, "quorumlock: quorumlock")
			assert.NotContains(t, r.stderr, "secret")
			assert.Empty(t, r.stdout)
		})
	}
}

func TestHelpIsNotTooWide(t *testing.T) {
	for _, command := range []string{"", "init", "ready", "doctor", "run", "latch", "latch set", "status", "top", "release", "nodes plan", "demo"} {
		r := call(t, append(strings.Fields(command), "--help")...)
		require.Zero(t, r.code)
		for line := range strings.Lines(r.stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(line)-1, text.Columns, line)
		}
	}
}

// TestGlobalFlagsAreNamedOnce: a command's help names the global flags, and the help of quorumlock explains them.
func TestGlobalFlagsAreNamedOnce(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: &output{w: io.Discard}}
	root := rootCommand(a)
	explained, named := call(t, "--help").stdout, call(t, "status", "--help").stdout
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		assert.Contains(t, explained, "--"+f.Name+" ")
		assert.Contains(t, globalFlags, "--"+f.Name)
	})
	assert.Contains(t, named, globalFlags)
	assert.NotContains(t, named, "in-memory nodes")
}

func TestVersion(t *testing.T) {
	r := call(t, "--version")
	assert.Zero(t, r.code)
	assert.Regexp(t, `^quorumlock \S+ go1\S+ \w+/\w+\n$`, r.stdout)
}

func TestNodesFromTheEnvironment(t *testing.T) {
	t.Setenv(nodesEnv, "redis://u:p%2Cw@a:1, b ,c")
	assert.Equal(t, []string{"redis://u:p%2Cw@a:1", "b", "c"}, (&nodeFlags{}).list())
	assert.Equal(t, []string{"x", "y", "z"}, (&nodeFlags{addresses: []string{"x,y", "z"}}).list(), "the flag goes first")

	r := call(t, "status", "--help")
	assert.NotContains(t, r.stdout, "p%2Cw", "passwords do not belong into a help text")

	r = call(t, "run", "--key", "k", "--embedded", "3", "true")
	assert.Zero(t, r.code, "a default does not conflict with a flag: %s", r.stderr)
}

func TestDefaultOfKillAfter(t *testing.T) {
	for _, c := range []struct{ ttl, maxTTL, want time.Duration }{
		{0, 10 * time.Second, 10 * time.Second},
		{0, time.Second, time.Second},
		{0, time.Minute, 10 * time.Second},
		{30 * time.Second, time.Minute, 30 * time.Second},
	} {
		assert.Equal(t, c.want, (&runFlags{ttl: c.ttl}).effectiveTTL(c.maxTTL))
	}
}

func TestCompletion(t *testing.T) {
	const noFiles, files = "\n:4\n", "\n:0\n"
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"st"}, []string{"status\tShow what has a name", noFiles}},
		{[]string{"top", "--sc"}, []string{"--scan"}},
		{[]string{"status", ""}, []string{noFiles}},
		{[]string{"run", "--key", "k", "--", ""}, []string{files}},
	} {
		r := call(t, append([]string{"__complete"}, c.args...)...)
		for _, says := range c.says {
			assert.Contains(t, "\n"+r.stdout, says, c.args)
		}
	}
}
