//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/cmd/internal/child"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// script returns the arguments to run a shell script under a lock on embedded nodes.
func script(text string, flags ...string) []string {
	args := append([]string{"run", "--embedded", "3", "--key", "k"}, flags...)
	return append(args, "--", "sh", "-c", text)
}

// TestRunPassesTheStatusOn: the exit code is the command's own, or says as shells do why it did not run.
func TestRunPassesTheStatusOn(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
		return path
	}
	for _, c := range []struct {
		command []string
		code    int
		says    string
	}{
		{sh("true"), 0, ""},
		{sh("exit 1"), 1, ""},
		{sh("exit 122"), 122, ""},
		{sh("exit 255"), 255, ""},
		{sh("kill -KILL $$"), 137, ""},
		{sh("kill -TERM $$"), 143, ""},
		{[]string{"nosuchcommand"}, exit.NotFound, "cannot run nosuchcommand: executable file not found"},
		{[]string{filepath.Join(dir, "none")}, exit.NotFound, "no such file"},
		{[]string{dir}, exit.NotRunning, "is a directory"},
		{[]string{"/etc/passwd"}, exit.NotRunning, "permission denied"},
		{[]string{file("noformat", "\x00\x01")}, exit.NotRunning, "exec format error"},
		{[]string{file("nointerpreter", "#!/nowhere/sh\n")}, exit.NotFound, "no such file"},
	} {
		r := call(t, append([]string{"run", "--embedded", "3", "--key", "k", "--"}, c.command...)...)
		assert.Equal(t, c.code, r.code, c.command)
		assert.Contains(t, r.stderr, c.says)
	}
}

func sh(text string) []string { return []string{"sh", "-c", text} }

// TestRunTellsTheCommand: the environment describes the lock, and replaces what an outer quorumlock said.
func TestRunTellsTheCommand(t *testing.T) {
	t.Setenv("QUORUMLOCK_KEY", "outer")
	t.Setenv(nodesEnv, "redis://:secret@nowhere:1") // passwords do not travel
	before := time.Now()
	r := call(t, script(`for v in OWNER KEY KEYS TOKEN VALID_UNTIL NODES; do eval echo "\"\${QUORUMLOCK_$v-unset}\""; done`)...)
	require.Zero(t, r.code, r.stderr)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, lines, 6)
	assert.Regexp(t, `^[A-Z0-9]{20,}:1 \S+/\d+ sh$`, lines[0])
	assert.Equal(t, []string{"k", "k"}, lines[1:3])
	token, err := strconv.ParseInt(lines[3], 10, 64)
	require.NoError(t, err)
	assert.WithinRange(t, time.UnixMicro(token), before.Add(-time.Microsecond), time.Now(), "a token is the time, unless a larger one was seen")
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, lines[4])
	until, err := time.Parse(time.RFC3339, lines[4])
	require.NoError(t, err)
	assert.WithinRange(t, until, before.Add(9*time.Second), time.Now().Add(10*time.Second))
	assert.Equal(t, "unset", lines[5])

	r = call(t, "run", "--embedded", "3", "--multi", "--key", "stock", "--key", "b c", "--", "sh", "-c", `echo "$QUORUMLOCK_KEY|$QUORUMLOCK_KEYS"`)
	assert.Equal(t, "stock|stock\nb c\n", r.stdout, r.stderr)
	r = call(t, "run", "--embedded", "3", "--key", "k", "echo", "-n", "--wait", "x")
	assert.Equal(t, "--wait x", r.stdout, "no dashes are needed: %s", r.stderr)
}

func TestRunIsQuiet(t *testing.T) {
	r := call(t, script("true")...)
	assert.Equal(t, "quorumlock: note: --embedded nodes live in this process and do not exclude other processes\n", r.stderr)
	r = call(t, script("true", "-v")...)
	assert.Contains(t, r.stderr, "lease granted")
}

func TestRunPassesInputAndOutput(t *testing.T) {
	p := begin(t, script("read x; echo got it; echo and said so >&2")...)
	p.reply()
	assert.Equal(t, "got it", p.line())
	assert.Zero(t, p.exit())
	assert.Contains(t, p.stderr.String(), "and said so\n")
}

func TestMaxHoldStopsTheCommandAndItsChildren(t *testing.T) {
	t.Parallel()
	// The time is long enough for shells that a busy machine starts late, here and below.
	p := begin(t, script(`sh -c 'trap "echo child told; exit" TERM; echo ready; while :; do sleep 0.02; done' & trap "" TERM; wait`, "--max-hold", "3s", "--kill-after", "3s")...)
	assert.Equal(t, "ready", p.line())
	assert.Equal(t, "child told", p.line())
	assert.Equal(t, exit.Lost, p.exit())
	assert.Contains(t, p.stderr.String(), "--max-hold 3s is over")
}

// TestStopKillsRemainingProcesses: the remaining processes of a stopped command are killed, in every way to leave them
// behind.
func TestStopKillsRemainingProcesses(t *testing.T) {
	const stubborn = `trap "" TERM; echo $$; while :; do sleep 0.02; done`
	for name, text := range map[string]string{
		"the command":                 stubborn,
		"the command without grace":   stubborn,
		"a child":                     `sh -c 'trap "" TERM; echo $$; while :; do sleep 0.02; done' & wait`,
		"a child of an ended command": `sh -c 'trap "" TERM; echo $$; while :; do sleep 0.02; done' & trap "exit 0" TERM; wait`,
		"a stopped command":           `echo $$; kill -STOP $$; echo on`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grace := "300ms"
			if name == "the command without grace" {
				grace = "0s"
			}
			p := begin(t, script(text, "--max-hold", "3s", "--kill-after", grace)...)
			pid := p.line()
			assert.Equal(t, exit.Lost, p.exit())
			if text == stubborn {
				assert.Contains(t, p.stderr.String(), "the command has ended: signal: killed")
			}
			requireGone(t, pid)
		})
	}
}

// requireGone waits until a process has ended. A zombie counts as ended.
func requireGone(t *testing.T, pid string) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, patience, 5*time.Millisecond, pid)
}

// deafOnce is a node that does not answer the second question of --once, the one under the lock.
type deafOnce struct {
	node.Node
	asked *atomic.Int32
}

func (n deafOnce) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	if ops[0].Kind == wire.Once && n.asked.Add(1) == 2 {
		replies[0] = wire.Reply{Err: &node.Error{Node: n.Name(), Op: ops[0].Kind.String(), Reason: node.ErrTimeout}}
		return
	}
	n.Node.Do(ctx, ops, replies)
}

// TestRunOnceAsksAgain: nodes that are slow for a moment, just after they granted the lock, do not cost the run.
func TestRunOnceAsksAgain(t *testing.T) {
	var stdout bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &output{w: io.Discard}}
	f := runFlags{keys: []string{"k"}, once: time.Minute, killAfter: time.Second}
	cfg := quorumlock.Config{Logger: a.logger()}
	for i := range 3 {
		cfg.Nodes = append(cfg.Nodes, deafOnce{memory.New(fmt.Sprint("n", i), clock.Process()), new(atomic.Int32)})
	}
	_, err := admin.Init(t.Context(), cfg)
	require.NoError(t, err)
	client, err := quorumlock.New(cfg)
	require.NoError(t, err)
	defer a.closeClient(t.Context(), client)
	h := &holder{app: a, flags: f, client: client, locks: f.locks(client), rounds: &rounds{failed: make(chan quorumlock.AttemptFailedEvent, 1)}, signals: make(chan os.Signal, 1)}
	command, err := child.New([]string{"echo", "done"}, a.stdin, a.stdout, a.stderr)
	require.NoError(t, err)
	require.NoError(t, h.hold(t.Context(), command))
	assert.Equal(t, "done\n", stdout.String())
}

// TestChildrenMayOutliveTheCommand: a command that ends by itself may leave children behind.
func TestChildrenMayOutliveTheCommand(t *testing.T) {
	p := begin(t, script(`exec 3<&0; sh -c 'echo $$; read x' <&3 & exit 4`)...)
	pid := p.line()
	assert.Equal(t, 4, p.exit())
	assert.DirExists(t, filepath.Join("/proc", pid))
	require.NoError(t, p.stdin.Close())
	requireGone(t, pid)
}

func TestEndOfTheContextStopsTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	ended := make(chan result, 1)
	go func() { ended <- callWith(ctx, script(": > "+ready+"; sleep 60")...) }()
	require.Eventually(t, func() bool { _, err := os.Stat(ready); return err == nil }, patience, 5*time.Millisecond)
	cancel(assert.AnError)
	r := <-ended
	assert.Equal(t, exit.Failure, r.code)
	assert.Contains(t, r.stderr, assert.AnError.Error())
}

func TestSignalsArePassedOn(t *testing.T) {
	for sig, name := range map[syscall.Signal]string{
		syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP",
		syscall.SIGQUIT: "QUIT", syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, script(`n=0; trap 'n=$((n+1))' `+name+`; echo ready; while [ $n = 0 ]; do sleep 0.02; done; sleep 0.2; echo $n; exit 9`)...)
			assert.Equal(t, "ready", p.line())
			p.signal(sig)
			assert.Equal(t, "1", p.line(), "once, not twice")
			assert.Equal(t, 9, p.exit(), "the command decides what a signal means")
		})
	}
}

// TestUserSignalsSpareTheChildren: SIGUSR1 kills a program that does not expect it, so only the command gets it.
func TestUserSignalsSpareTheChildren(t *testing.T) {
	p := begin(t, script(`trap 'echo told' USR1; exec 3<&0; sh -c 'echo ready; read x; echo child lives' <&3 & wait; wait`)...)
	assert.Equal(t, "ready", p.line())
	p.signal(syscall.SIGUSR1)
	assert.Equal(t, "told", p.line())
	p.reply()
	assert.Equal(t, "child lives", p.line())
	assert.Zero(t, p.exit())
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	self := selfCommand(t, script(`echo ready; read x; exit 5`)...)
	nohup := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh"}, self.Args...)...)
	nohup.Env = self.Env
	p := beginCommand(t, nohup)
	assert.Equal(t, "ready", p.line())
	p.signal(syscall.SIGHUP)
	p.reply()
	assert.Equal(t, 5, p.exit())
}
