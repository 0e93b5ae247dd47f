package node_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/respguard"
	"github.com/quorumlock/quorumlock/node"
)

// hostile is what a server says that must end no process. rueidis alone reserves what is announced,
// gathers lines and nested values without a bound, and panics where it knows no better.
var hostile = map[string]struct {
	// says is how the reply begins, and goesOn what follows it again and again.
	says, goesOn string
	// err is which rule it breaks.
	err respguard.Violation
}{
	"a string":            {"$100000000000\r\n", "", respguard.LongString},
	"a verbatim string":   {"=100000000000\r\n", "", respguard.LongString},
	"a blob error":        {"!100000000000\r\n", "", respguard.LongString},
	"a string of 2^63-1":  {"$9223372036854775807\r\n", "", respguard.LongString},
	"an array":            {"*1000000000\r\n", "", respguard.ManyValues},
	"a set":               {"~1000000000\r\n", "", respguard.ManyValues},
	"a map":               {"%1000000000\r\n", "", respguard.ManyValues},
	"a map of 2^63-1":     {"%9223372036854775807\r\n", "", respguard.ManyValues},
	"a push":              {">1000000000\r\n", "", respguard.ManyValues},
	"attributes":          {"|1000000000\r\n", "", respguard.ManyValues},
	"a negative map":      {"%-1\r\n", "", respguard.Negative},
	"a streamed string":   {"$?\r\n;100000000000\r\n", "", respguard.Streamed},
	"a streamed array":    {"*?\r\n", ":1\r\n", respguard.Streamed},
	"a line":              {"+", "line without an end, ", respguard.LongLine},
	"nested arrays":       {"", "*1\r\n", respguard.Deep},
	"many attributes":     {"", "|0\r\n", respguard.ManyValues},
	"too many replies":    {"-ERR no\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n", "", respguard.Unasked},
	"replies without end": {"", ":1\r\n", respguard.Unasked},
}

// stages are the commands that a hostile server answers as it likes. The others it answers well.
var stages = []string{"HELLO", "CLIENT INFO", "INFO REPLICATION", "EVALSHA"}

// hostileAt serves connections until the command that it answers with something else.
func hostileAt(stage, says, goesOn string) func(net.Conn) {
	return func(c net.Conn) {
		well := fake(func(args []string) (string, bool) { return ":1\r\n", true })
		well(&ambush{Conn: c, stage: stage, says: says, goesOn: goesOn})
	}
}

// ambush is the server's side of a connection on which one command is answered differently.
type ambush struct {
	net.Conn
	stage, says, goesOn string
	sprung              bool
}

func (a *ambush) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	text := strings.ToUpper(strings.ReplaceAll(string(p[:n]), "\r\n", " "))
	for i := range 9 { // the lengths of the arguments
		text = strings.ReplaceAll(text, fmt.Sprintf("$%d ", i+1), "")
		text = strings.ReplaceAll(text, fmt.Sprintf("$%d ", i+10), "")
	}
	a.sprung = a.sprung || strings.Contains(text, a.stage)
	if !a.sprung || err != nil {
		return n, err
	}
	if _, err = io.WriteString(a.Conn, a.says); err != nil {
		return 0, err
	}
	for more := strings.Repeat(a.goesOn, 1+(16<<10)/max(1, len(a.goesOn))); a.goesOn != ""; {
		if _, err = io.WriteString(a.Conn, more); err != nil {
			return 0, err
		}
	}
	_, _ = io.Copy(io.Discard, a.Conn)
	return 0, io.EOF
}

const (
	hostileAddr = "QUORUMLOCK_TEST_HOSTILE"
	// mostMemory is what a process may take from the system that talks to a hostile server: most of
	// it is the test's own.
	mostMemory = 128 << 20
)

// Each server is visited by a process of its own: where one such reply ends it, as it does without
// the guard, this one tells of it.
func TestRedisHostileServers(t *testing.T) {
	for _, stage := range stages {
		for what, c := range hostile {
			t.Run(strings.ToLower(stage)+" "+what, func(t *testing.T) {
				t.Parallel()
				said := visit(t, newFront(t, hostileAt(stage, c.says, c.goesOn)).addr())
				require.Contains(t, said, "survived")
				require.Contains(t, said, node.ErrProtocol.Error()+": "+c.err.Error())
			})
		}
	}
}

// visit runs TestHostileVisitor in another process, and returns what that wrote.
func visit(t *testing.T, addr string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestHostileVisitor$", "-test.timeout=1m")
	if runtime.GOOS == "linux" && !raced {
		// What asks for more must fail soon, and leave the machine alone.
		cmd = exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -v 8000000; exec "$0" "$@"`}, cmd.Args...)...)
	}
	cmd.Env = append(os.Environ(), hostileAddr+"="+addr, "GORACE=atexit_sleep_ms=0")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// TestHostileVisitor is what TestRedisHostileServers runs in processes of their own. On its own it
// has nothing to do.
func TestHostileVisitor(t *testing.T) {
	addr := os.Getenv(hostileAddr)
	if addr == "" {
		return
	}
	opt, err := node.ParseAddress(addr)
	require.NoError(t, err)
	opt.Dialer.Timeout, opt.ConnWriteTimeout = 5*time.Second, 5*time.Second
	n := openWith(t, opt)
	for range 2 {
		fmt.Println(do(n, acquire("o1", "a"))[0].Err)
	}
	require.NoError(t, n.Close())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if !raced {
		require.Less(t, memory.Sys, uint64(mostMemory))
	}
	fmt.Println("survived")
}

// Nothing of a hostile reply stays: the server is used again when it is well. This process does not
// survive either without the guard.
func TestRedisUsesAHostileServerAgain(t *testing.T) {
	server := start(t)
	for what, c := range hostile {
		t.Run(what, func(t *testing.T) {
			f := newFront(t, hostileAt("EVALSHA", c.says, c.goesOn))
			n := open(t, f.addr())
			for range 2 {
				err := failure(t, node.ErrProtocol, n, acquire("o1", "a"))
				assert.True(t, err.Permanent())
				var broken respguard.Violation
				require.True(t, errors.As(err, &broken), "%v", err)
				assert.Equal(t, c.err, broken)
			}
			f.replace(forward(server.Addr()))
			eventually(t, node.Granted, n, acquire("o1", "a"))
			eventually(t, node.Released, n, release("o1", "a"))
		})
	}
}
