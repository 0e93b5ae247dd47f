package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

func TestExitCodes(t *testing.T) {
	held := &quorumlock.HeldError{Name: "k", Owner: "o"}
	few := &quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Need: 3, Total: 5}
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"nothing":      {nil, exitOK},
		"held":         {held, exitHeld},
		"no quorum":    {few, exitNoQuorum},
		"both":         {errors.Join(few, held), exitHeld},
		"lost":         {&quorumlock.LostError{}, exitLost},
		"wrapped":      {fmt.Errorf("after a while: %w", held), exitHeld},
		"own":          {&exitError{code: 77}, 77},
		"own, joined":  {errors.Join(few, &exitError{code: 77}), 77},
		"invalid":      {&quorumlock.InvalidError{}, exitFailure},
		"closed":       {quorumlock.ErrClosed, exitFailure},
		"usage":        {&usageError{err: errors.New("x")}, exitFailure},
		"anything":     {errors.New("x"), exitFailure},
		"by a signal":  {&exitError{code: signalCode(os.Interrupt)}, 130},
		"odd a signal": {&exitError{code: signalCode(nil)}, exitFailure},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.code, exitCode(c.err)) })
	}
}

func TestMessages(t *testing.T) {
	assert.Empty(t, message(nil))
	assert.Empty(t, message(&exitError{code: 3}))
	assert.Equal(t, "exit code 3", (&exitError{code: 3}).Error())
	assert.Equal(t, `"k" is held by o for another 0s unless renewed`, message(&quorumlock.HeldError{Name: "k", Owner: "o"}))
	assert.Equal(t, "x\nTry 'quorumlock run --help'.", message(&usageError{command: "quorumlock run", err: errors.New("x")}))
}

// The table is in the package comment and in --help; this test keeps them equal.
func TestHelpAndPackageCommentAgreeOnExitCodes(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	for line := range strings.Lines(exitCodeHelp) {
		if line = strings.TrimSpace(line); line != "Exit codes:" {
			assert.Contains(t, string(source), "//\t"+line+"\n")
		}
	}
	for _, command := range [][]string{{"--help"}, {"run", "--help"}} {
		r := call(t, command...)
		assert.Zero(t, r.code)
		assert.Contains(t, r.stdout, exitCodeHelp)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"frob", `unknown command "frob"`},
		{"--frob", "unknown flag"},
		{"version x", "unknown command"},
		{"version --embedded 3", "--embedded has no effect here"},
		{"demo --nodes a", "--nodes has no effect here"},
		{"demo --max-clock-skew 1s", "--max-clock-skew has no effect here"},
		{"init", "no nodes: give --nodes"},
		{"init x --nodes a", "unknown command"},
		{"init --embedded 3", "--embedded has no effect here"},
		{"init --nodes a,b", "use an odd number, or set --allow-even\nTry 'quorumlock init --help'."},
		{"init --nodes a,a,b", "listed twice"},
		{"init --nodes a,,b", "address 2: empty address"},
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
		{"status k --nodes a,a,b", "listed twice"},
		{"status k --nodes redis://user:secret@b:x", "address 1: "},
		{"status k --nodes a --node-timeout -1s", "--node-timeout -1s is not positive\nTry 'quorumlock status --help'."},
		{"status k --nodes a --max-ttl 0s", "--max-ttl 0s is not positive"},
		{"status quorumlock:k --nodes a", "reserved"},
		{"release k --embedded 3", "refused without --force: the holder may be alive"},
		{"release --force --embedded 3", "no KEY: the lock needs a name"},
		{"ready --embedded 3", "--embedded has no effect here"},
		{"ready --nodes a --wait -1s", "--wait -1s is negative"},
		{"latch set l --embedded 3", "accepts 2 arg(s), received 1\nTry 'quorumlock latch set --help'."},
		{"latch set l x --embedded 3", `COUNT "x" is not a number`},
		{"latch wait l --embedded 3", `unknown command "wait" for "quorumlock latch"`},
		{"latch set l 0 --embedded 3", "a latch cannot be set to 0"},
		{"latch await quorumlock:l --embedded 3", "reserved"},
		{"latch await l --wait -1s --embedded 3", "--wait -1s is negative"},
		{"latch down l id --wait 0s --embedded 3", "--wait 0s leaves no time"},
		{"latch await l --ttl 1s --embedded 3", "TTL 1s of a latch is under 10s"},
		{"release --force k --nodes a --owner x:1 --permit 1", "--owner and --permit exclude each other"},
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
		{"run --key k --embedded 3 --max-ttl -1s -- true", "--max-ttl -1s is not positive"},
		{"run --key k --embedded 3 --node-timeout -1s -- true", "--node-timeout -1s is not positive"},
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
	} {
		t.Run(c.args, func(t *testing.T) {
			r := call(t, strings.Fields(c.args)...)
			assert.Equal(t, exitFailure, r.code)
			assert.Contains(t, r.stderr, c.says)
			assert.NotContains(t, r.stderr, "quorumlock: quorumlock")
			assert.NotContains(t, r.stderr, "secret")
			assert.Empty(t, r.stdout)
		})
	}
}

// Owners and errors come from servers, and reach terminals.
func TestNothingFromServersReachesTheTerminalRaw(t *testing.T) {
	const evil = "\x1b[2J\nquorumlock: all is well\u202e"
	failure := &node.Error{Node: "n", Op: node.Acquire, Reason: node.ErrRejected, Err: errors.New(evil)}
	said := []quorumlock.NodeError{{Node: "n", Err: failure}}
	held := &quorumlock.HeldError{Name: "k", Owner: evil}
	for name, text := range map[string]string{
		"held":      message(held),
		"wrapped":   message(fmt.Errorf("no lock: %w", held)),
		"no quorum": message(&quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Nodes: said}),
		"lost":      message(&quorumlock.LostError{Names: []string{"k"}, Reason: "x", Nodes: said}),
		"reason":    nodeReason(failure),
		"raw":       nodeReason(errors.New(evil)),
		"waiting":   reason(held),
		"shown":     quorumlock.DescribeOwner(evil),
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotContains(t, text, "\x1b")
			assert.NotContains(t, text, "\n")
			assert.NotContains(t, text, "\u202e")
			assert.Contains(t, text, `\x1b[2J`)
		})
	}
}

func TestShownOwners(t *testing.T) {
	for owner, text := range map[string]string{
		"ABC_d-e.f:1": "ABC_d-e.f:1",
		"":            `""`,
		"two words":   "two (words)",
		"a\tb":        `"a\tb"`,
		"k,forged":    `"k,forged"`,
		"end\n":       `"end\n"`,
	} {
		assert.Equal(t, text, quorumlock.DescribeOwner(owner))
	}
	assert.Equal(t, `"k" is held by "k,forged", without expiry`, message(&quorumlock.HeldError{Name: "k", Owner: "k,forged", TTL: node.NoExpiry}))
}

func TestReasons(t *testing.T) {
	few := &quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Need: 3, Total: 5}
	assert.Equal(t, "no quorum: 0 of 5 nodes agreed, 3 needed", reason(few))
	few.Names = []string{"j", "k"}
	assert.Equal(t, "no quorum: 0 of 5 nodes agreed, 3 needed", reason(few))
	assert.Equal(t, "held by o for another 1s unless renewed", reason(&quorumlock.HeldError{Name: "k", Owner: "o", TTL: time.Second}))
	assert.Equal(t, "x", reason(errors.New("x")))
}

func TestAdvice(t *testing.T) {
	recovering := &node.Error{Node: "n", Op: node.Acquire, Reason: node.ErrRecovering, Err: &node.RecoveryError{Left: 9123 * time.Millisecond, Length: 11 * time.Second}}
	differing := &node.Error{Node: "n", Op: node.Acquire, Reason: node.ErrSettings, Err: &node.SettingsError{
		Node: node.Limits{MaxTTL: time.Second}, Client: node.Limits{MaxTTL: 2 * time.Second},
	}}
	early := &node.Error{Node: "n", Op: node.Acquire, Reason: node.ErrClock, Err: &node.ClockError{Ahead: 3 * time.Second, Limit: time.Second}}
	few := func(errs ...error) error {
		e := &quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Need: 2, Total: 3}
		for _, err := range errs {
			e.Nodes = append(e.Nodes, quorumlock.NodeError{Node: "n", Err: err})
		}
		return e
	}
	const head = "no quorum: 0 of 3 nodes agreed, 2 needed "
	assert.Equal(t, head+"(n, n: acquire: recovering: for another 9.2s)", reason(few(recovering, recovering)))
	assert.Contains(t, advice(few(early, recovering)), "'quorumlock init'")
	assert.Equal(t, head+"(n: acquire: settings differ: --max-ttl 1s and --max-clock-skew 0s, not 2s and 0s)", reason(few(differing)))
	assert.Contains(t, advice(few(differing)), "--max-ttl")
	assert.Contains(t, reason(few(early)), "1s (--max-clock-skew)")
	assert.Empty(t, advice(few(early)))
	assert.Empty(t, advice(&quorumlock.HeldError{}))

	// An uncounted renewal is no reason to open nodes.
	uncounted := &node.Error{Node: "n", Op: node.Renew, Reason: node.ErrRecovering, Err: errors.New("x")}
	assert.Empty(t, advice(&quorumlock.LostError{Nodes: []quorumlock.NodeError{{Node: "n", Err: uncounted}}}))
}

func TestHelpIsNotTooWide(t *testing.T) {
	for _, command := range []string{"", "init", "ready", "doctor", "run", "latch", "latch set", "status", "top", "release", "demo", "version"} {
		r := call(t, append(strings.Fields(command), "--help")...)
		require.Zero(t, r.code)
		for line := range strings.Lines(r.stdout) {
			assert.LessOrEqual(t, utf8.RuneCountInString(line)-1, helpColumns, line)
		}
	}
}

// TestGlobalFlagsAreNamedOnce: a command's help names the global flags, and the help of quorumlock explains them.
func TestGlobalFlagsAreNamedOnce(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: &output{w: io.Discard}}
	root := a.rootCommand()
	explained, named := call(t, "--help").stdout, call(t, "status", "--help").stdout
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		assert.Contains(t, explained, "--"+f.Name+" ")
		assert.Contains(t, globalFlags, "--"+f.Name)
	})
	assert.Contains(t, named, globalFlags)
	assert.NotContains(t, named, "in-memory nodes")
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		r := call(t, arg)
		assert.Zero(t, r.code)
		assert.Regexp(t, `^quorumlock \S+ go1\S+ \w+/\w+\n$`, r.stdout)
	}
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
