package node_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/respguard"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// hostile are replies that must not crash the process. Alone, rueidis reserves any announced
// length and buffers lines and nested values without a bound. It also panics on replies to no
// command.
var hostile = map[string]struct {
	// says is the start of the reply. goesOn follows it again and again.
	says, goesOn string
	// err is the violated rule.
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
	"many attributes":     {"", "|0\r\n", respguard.LongReply},
	"much text":           {"*200000\r\n", "$10\r\n0123456789\r\n", respguard.LongReply},
	"long texts":          {"*1000\r\n", bulk(strings.Repeat("x", 100_000)), respguard.LongReply},
	"too many replies":    {"-ERR no\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n", "", respguard.Unasked},
	"replies without end": {"", ":1\r\n", respguard.Unasked},
}

// stages are the commands that a hostile server abuses. It answers all other commands correctly.
var stages = []string{"HELLO", "CLIENT INFO", "INFO REPLICATION", "EVALSHA"}

// hostileAt answers correctly until a command with this prefix.
func hostileAt(stage, says, goesOn string, well func([]string) (string, bool)) func(net.Conn) {
	return func(c net.Conn) {
		converse(c, func(args []string) (string, bool) {
			if strings.HasPrefix(strings.ToUpper(strings.Join(args, " ")), stage) {
				sendForever(c, says, goesOn)
				return "", false
			}
			if args[0] == "PING" {
				return "+PONG\r\n", true
			}
			if reply, ok := hello(args); ok {
				return reply, true
			}
			return well(args)
		})
	}
}

// sendForever sends its start and repeats the rest while the client listens. It returns after the client
// has disconnected.
func sendForever(c net.Conn, says, goesOn string) {
	_, err := io.WriteString(c, says)
	for more := strings.Repeat(goesOn, 1<<10); goesOn != "" && err == nil; {
		_, err = io.WriteString(c, more)
	}
	_, _ = io.Copy(io.Discard, c)
}

const (
	hostileAddr = "QUORUMLOCK_TEST_HOSTILE"
	// mostMemory bounds the memory of a process that talks to a hostile server. Most of it is the
	// test's own.
	mostMemory = 64 << 20
)

// A separate process visits each server. Without the guard one such reply crashes the visitor, and
// this process reports it.
func TestRedisHostileServers(t *testing.T) {
	for _, stage := range stages {
		for what, c := range hostile {
			t.Run(strings.ToLower(stage)+" "+what, func(t *testing.T) {
				t.Parallel()
				said := visit(t, redisproc.Serve(t, hostileAt(stage, c.says, c.goesOn, always(":1\r\n"))).Addr())
				require.Contains(t, said, "survived")
				require.Contains(t, said, node.ErrProtocol.Error()+": "+c.err.Error())
			})
		}
	}
}

// Goroutines of the client library read the replies of a Sentinel. The library dials again if a
// subscription fails, so that the node's error may be another one.
func TestRedisHostileSentinels(t *testing.T) {
	pushes := func(verb string) string { return ">3\r\n" + bulk(verb) + bulk("+sentinel") + ":1\r\n" }
	var subscribed strings.Builder
	for _, channel := range []string{"+sentinel", "+slave", "-sdown", "+sdown", "+switch-master", "+reboot"} {
		subscribed.WriteString(">3\r\n" + bulk("subscribe") + bulk(channel) + ":1\r\n")
	}
	message := func(channel, text string) string {
		return subscribed.String() + ">3\r\n" + bulk("message") + bulk(channel) + bulk(text)
	}
	const anything respguard.Violation = ""
	for stage, replies := range map[string]map[string]respguard.Violation{
		"UNSUBSCRIBE": {
			"$100000000000\r\n": anything, "+QUEUED\r\n": anything, strings.Repeat("+PONG\r\n", 9): anything,
			pushes("subscribe"): anything,
		},
		"SUBSCRIBE": {
			"%1000000000\r\n": anything, "+QUEUED\r\n": anything, strings.Repeat("*1\r\n", 1000): anything,
			strings.Repeat(pushes("subscribe"), 9): anything, pushes("subscribe") + pushes("unsubscribe"): anything,
			message("+sentinel", "short"): anything, message("+switch-master", "mymaster 127.0.0.1 1 127.0.0.1"): anything,
			message("+reboot", "master mymaster 127.0.0.1"): anything,
		},
		"SENTINEL GET-MASTER-ADDR-BY-NAME": {
			"!100000000000\r\n": respguard.LongString, ">1000000000\r\n": respguard.ManyValues, "*?\r\n": respguard.Streamed,
			strings.Repeat("+OK\r\n", 9): anything, strings.Repeat(pushes("subscribe"), 9): respguard.Unasked,
			"*0\r\n": respguard.FewValues, "*1\r\n" + bulk("127.0.0.1"): respguard.FewValues,
		},
		"ROLE": {"*0\r\n": respguard.FewValues},
	} {
		for says, broken := range replies {
			t.Run(fmt.Sprintf("%s %.20q", strings.ToLower(stage), says[max(0, len(says)-50):]), func(t *testing.T) {
				t.Parallel()
				master := make(chan string, 1)
				front := redisproc.Serve(t, hostileAt(stage, says, "", fakeSentinel(func() string {
					addr := <-master
					master <- addr
					return addr
				})))
				if master <- "127.0.0.1:1"; stage == "ROLE" {
					<-master
					master <- front.Addr()
				}
				said := visit(t, "redis://"+front.Addr()+"?master_set=mymaster")
				require.Contains(t, said, "survived")
				require.NotContains(t, said, "<nil>")
				require.Contains(t, said, broken)
			})
		}
	}
}

// The guard reads what TLS has decrypted.
func TestRedisHostileServerBehindTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	web.Close()
	for what, c := range hostile {
		t.Run(what, func(t *testing.T) {
			serve := hostileAt("EVALSHA", c.says, c.goesOn, always(":1\r\n"))
			f := redisproc.Serve(t, func(c net.Conn) { serve(tls.Server(c, web.TLS)) })
			opt, err := node.ParseAddress("rediss://" + f.Addr())
			require.NoError(t, err)
			opt.TLSConfig.RootCAs = x509.NewCertPool()
			opt.TLSConfig.RootCAs.AddCert(web.Certificate())
			failed := failure(t, node.ErrProtocol, openWith(t, opt), acquire("o1", "a"))
			require.ErrorIs(t, failed, c.err)
		})
	}
}

// visit runs TestHostileServersChild in another process, and returns its output.
func visit(t *testing.T, addr string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestHostileServersChild$", "-test.timeout=1m")
	if runtime.GOOS == "linux" && !testkit.Raced {
		// The limit makes a large allocation fail soon and protects the machine.
		cmd = exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -v 8000000; exec "$0" "$@"`}, cmd.Args...)...)
	}
	cmd.Env = append(os.Environ(), hostileAddr+"="+addr, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput() // goleak reports goroutines that are left
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestHostileServersChild is the visitor's part of TestRedisHostileServers. It does nothing when it
// runs alone.
func TestHostileServersChild(t *testing.T) {
	addr := os.Getenv(hostileAddr)
	if addr == "" {
		return
	}
	opt, err := node.ParseAddress(addr)
	require.NoError(t, err)
	opt.Dialer.Timeout, opt.ConnWriteTimeout = 20*time.Second, 20*time.Second // the guard ends it, not a timeout
	n := openWith(t, opt)
	for range 2 {
		fmt.Println(do(n, acquire("o1", "a"))[0].Err)
	}
	require.NoError(t, n.Close())
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if !testkit.Raced {
		require.Less(t, memory.Sys, uint64(mostMemory))
	}
	fmt.Println("survived")
}

// A hostile reply has no lasting effect. The node uses the server again once it behaves. Without
// the guard this process would crash as well.
func TestRedisUsesAHostileServerAgain(t *testing.T) {
	server := start(t)
	for what, c := range hostile {
		t.Run(what, func(t *testing.T) {
			f := redisproc.Serve(t, hostileAt("EVALSHA", c.says, c.goesOn, always(":1\r\n")))
			n := open(t, f.Addr())
			for range 2 {
				err := failure(t, node.ErrProtocol, n, acquire("o1", "a"))
				assert.True(t, err.Permanent())
				var broken respguard.Violation
				require.ErrorAs(t, err, &broken)
				assert.Equal(t, c.err, broken)
			}
			f.Serve(redisproc.Forward(server.Addr()))
			f.Sever()
			eventually(t, wire.Granted, n, acquire("o1", "a"))
			eventually(t, wire.Released, n, release("o1", "a"))
		})
	}
}
