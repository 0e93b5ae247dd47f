package realtest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// These environment variables tell another process of the same binary what to do.
const (
	childRole  = "QUORUMLOCK_TEST_ROLE"
	childNodes = "QUORUMLOCK_TEST_NODES"
	childTTL   = "QUORUMLOCK_TEST_TTL"
	childDir   = "QUORUMLOCK_TEST_DIR"
)

// childRoles holds the roles of TestChildProcess that other files define.
var childRoles = map[string]func(*testing.T){}

// childTimeout is the maximum lifetime of a process.
var childTimeout = 2 * time.Minute

// child is another process that uses the locks.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// spawn starts a process in a role of TestChildProcess. The process ends with the test at the
// latest. It also ends when this process ends.
func (c *cluster) spawn(role string, env ...string) *child {
	c.t.Helper()
	exe, err := os.Executable()
	require.NoError(c.t, err)
	cmd := exec.Command(exe, "-test.run=^TestChildProcess$", "-test.timeout="+childTimeout.String())
	cmd.Env = append(os.Environ(), childRole+"="+role, childNodes+"="+strings.Join(c.addresses(), ","))
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // Otherwise the race detector waits for a second at each exit.
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	p := &child{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	c.t.Cleanup(p.kill)
	return p
}

// kill ends the process with SIGKILL. It may be called again.
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// line returns the rest of the process's next line with this first word.
func (p *child) line(t *testing.T, word string) string {
	t.Helper()
	for p.out.Scan() {
		if rest, ok := strings.CutPrefix(p.out.Text(), word); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("the child process ended before it wrote %q: %v", word, p.out.Err())
	return ""
}

// TestChildProcess is the entry point of the processes that other tests start. It does nothing
// when it runs alone.
func TestChildProcess(t *testing.T) {
	role := os.Getenv(childRole)
	if role == "" {
		return
	}
	if play := childRoles[role]; play != nil {
		play(t)
		return
	}
	ttl, err := time.ParseDuration(os.Getenv(childTTL))
	require.NoError(t, err)
	client := newClient(t, withTTL(ttl), func(cfg *quorumlock.Config) {
		cfg.Addresses = strings.Split(os.Getenv(childNodes), ",")
	})
	require.Equal(t, "hold", role)
	holdUntilKilled(t, client)
}

// holdUntilKilled holds a lock. It answers each input line with the state of its lease.
func holdUntilKilled(t *testing.T, client *quorumlock.Client) {
	lease := acquire(t, client.RedLock("job"))
	fmt.Println("held", lease.Owner())
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		if err := lease.Err(); err != nil {
			fmt.Println("lease", err)
		} else {
			fmt.Println("lease valid")
		}
	}
	_ = lease.Release(t.Context())
}
