package node_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/rights"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func TestRedisPassword(t *testing.T) {
	const secret = "5ecr+t" // '+' needs no escape in a URL's password
	server := redisproc.Start(t, redisproc.WithPassword(secret))
	n := opened(t, open(t, "redis://:"+secret+"@"+server.Addr()))
	want(t, wire.Granted, n, acquire("o1", "a"))

	for _, address := range []string{server.Addr(), "redis://:wr0ng@" + server.Addr(), "redis://nobody:" + secret + "@" + server.Addr()} {
		n := open(t, address)
		err := failure(t, node.ErrAuth, n, acquire("o2", "b"))
		assert.True(t, err.Permanent())
		r := do(n, acquire("o2", "b"))[0]
		assert.True(t, r.Unsent)
		assert.NotContains(t, r.Err.Error(), secret)
		assert.NotContains(t, r.Err.Error(), "wr0ng")
		require.ErrorIs(t, n.Probe(context.Background()), node.ErrAuth)
	}

	// Servers of this version accept a password even if none is needed.
	plain := start(t)
	want(t, wire.Granted, open(t, "redis://:"+secret+"@"+plain.Addr()), acquire("o1", "a"))
}

// minimalACL holds the rights that a user needs to lock without waiting. CLIENT INFO and CLIENT
// KILL are optional, but without them a broken connection can leave locks behind. The keys are the
// names of the locks and the keys below quorumlock:.
var minimalACL = "~lock:* " + rulesOf(rights.Locks())

// waitingACL adds the rights that a user needs to wait and to use read locks.
var waitingACL = rulesOf(rights.Waiting())

// redissonACL adds the rights that a user needs to share locks with Redisson's clients.
var redissonACL = rulesOf(rights.Redisson())

func rulesOf(g rights.Group) string { return strings.Join(g.Rules, " ") }

// everything runs every command of the scripts at least once.
func everything(n node.Node) []wire.Reply {
	replies := do(n, renew("o1", "lock:a"), renew("o1", "lock:a"), release("o1", "lock:a"), wire.Op{Kind: wire.Mark})
	marker := replies[len(replies)-1].Marker
	replies = append(replies, do(n,
		wire.Op{Kind: wire.Open, Marker: marker},
		release("o1", "lock:a"), acquire("o1", "lock:a"), acquire("o2", "lock:a"), renew("o1", "lock:a"),
		inspect("lock:a"), force("lock:a"), renew("o1", "lock:a"), acquire("o3", "lock:a"), release("o3", "lock:a"),
		wire.Op{Kind: wire.Once, Names: []string{"lock:a"}, Owner: "1 o3", TTL: long},
		wire.Op{Kind: wire.Once, Names: []string{"lock:a"}})...)
	err := n.Probe(context.Background())
	return append(replies, wire.Reply{Err: err})
}

// everyWait runs the commands that only waiting and reading need. It opens the server first.
func everyWait(t *testing.T, server *redisproc.Server, n node.Node) []wire.Reply {
	t.Helper()
	admit(t, server)
	inbox, err := inbox.Listen(context.Background(), n, "c", false, func(wire.Message) {})
	replies := []wire.Reply{{Err: err}}
	replies = append(replies, do(n, everyWaitOps()...)...)
	if err == nil {
		require.NoError(t, inbox.Close())
	}
	return replies
}

// everyWaitOps are operations of waiters and readers.
func everyWaitOps() []wire.Op {
	return []wire.Op{
		acquire("o1", "lock:a"), waits("c:1", 1, "lock:a"), waits("c:2", 2, "lock:a"), release("o1", "lock:a"),
		fairly("c:2", 2, "lock:a"), fairly("c:1", 1, "lock:a"), leaves("c:2", "lock:a"), force("lock:a"),
		reads(acquire("r1", "lock:b")), reads(fairly("c:1@r", 1, "lock:b")), waits("c:2", 2, "lock:b"), reads(acquire("r2", "lock:b")),
		reads(renew("r1", "lock:b")), reads(renew("r3", "lock:b")), reads(release("r1", "lock:b")), inspect("lock:b"), force("lock:b"),
		acquire("w", "lock:b"), reads(renew("w", "lock:b")), reads(release("w", "lock:b")),
	}
}

// eachIsNeeded requires that operations run with all of these rights, and that without any one of the tested rights some
// operation is refused.
func eachIsNeeded(t *testing.T, run func(rules ...string) []wire.Reply, others, tested string) {
	t.Helper()
	rules := strings.Fields(others + " " + tested)
	for i, r := range run(rules...) {
		require.NoError(t, r.Err, "operation %d", i)
	}
	for i := len(strings.Fields(others)); i < len(rules); i++ {
		failures := 0
		for _, r := range run(slices.Delete(slices.Clone(rules), i, i+1)...) {
			if r.Err != nil {
				require.ErrorIs(t, r.Err, node.ErrAuth, "without %s", rules[i])
				failures++
			}
		}
		assert.Positive(t, failures, "%s is not needed", rules[i])
	}
}

func TestRedisMinimalACL(t *testing.T) {
	server := start(t)
	user := func(rules ...string) node.Node {
		command(t, server, "FLUSHALL")
		command(t, server, "SCRIPT", "FLUSH")
		return asUser(t, server, rules...)
	}
	n := user(minimalACL)
	for i, r := range everything(n) {
		require.NoError(t, r.Err, "operation %d", i)
	}
	assert.Empty(t, locks(t, server))
	fails(t, node.ErrAuth, n, acquire("o1", "another:a"))

	// Locking still works if the user may not name or kill the connection.
	for _, extra := range []string{"+client|info", "+client|kill", "+client"} {
		for i, r := range everything(user(minimalACL, extra)) {
			require.NoError(t, r.Err, "operation %d with %s", i, extra)
		}
	}
	eachIsNeeded(t, func(rules ...string) []wire.Reply { return everything(user(rules...)) }, "", minimalACL)
}

// A user without the rights to wait may do everything else. Waiting needs each of these rights.
func TestRedisWaitingACL(t *testing.T) {
	server := start(t)
	eachIsNeeded(t, func(rules ...string) []wire.Reply {
		command(t, server, "FLUSHALL")
		replies := everyWait(t, server, asUser(t, server, rules...))
		transient(t, server)
		return replies
	}, "resetchannels "+minimalACL, waitingACL)
}

// The rights in the documentation are sufficient and complete.
func TestRedisDocumentedACL(t *testing.T) {
	text, err := os.ReadFile("../docs/servers.md")
	require.NoError(t, err)
	_, text, ok := bytes.Cut(text, []byte("ACL SETUSER locker on >secret "))
	require.True(t, ok)
	acl, _, _ := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "\n")
	assert.Contains(t, string(text), "`"+redissonACL+"`")
	assert.Contains(t, string(text), "`"+latchACL+"`")
	rules := strings.Fields(strings.ReplaceAll(acl, "~job:*", "~lock:*"))
	want := strings.Fields(rights.SetUser("locker", "secret", "lock:*"))
	assert.ElementsMatch(t, want, append([]string{"ACL", "SETUSER", "locker", "on", ">secret"}, rules...))
	server := redisproc.Start(t)
	command(t, server, append([]string{"ACL", "SETUSER", "locker", "on", ">secret"}, rules...)...)
	for i, r := range everything(open(t, "redis://locker:secret@"+server.Addr())) {
		require.NoError(t, r.Err, "operation %d", i)
	}
	for i, r := range everyWait(t, server, open(t, "redis://locker:secret@"+server.Addr())) {
		require.NoError(t, r.Err, "operation %d", i)
	}
	log := command(t, server, "ACL", "LOG")
	assert.Empty(t, log, "something was denied")
}

// The server says whether it refused the command, of which nothing ran then, or the script in it.
func TestRedisRefusedCommandDidNotRun(t *testing.T) {
	server := start(t)
	for rules, notRun := range map[string]bool{
		"~* +@all -evalsha -eval":                            true,
		"~quorumlock:* ~lock:b +@all":                        true, // the name is one of the KEYS
		"~lock:* +@all":                                      true, // so are those of the library
		"~lock:* ~quorumlock:node ~quorumlock:queue:* +@all": true,
		"~* +@all -hset":                                     false,
		"~* +@all -pexpire":                                  false, // after a write
	} {
		command(t, server, "FLUSHALL")
		admit(t, server)
		for _, op := range []wire.Op{acquire("o1", "lock:a"), waits("c:1", 1, "lock:a")} {
			err := failure(t, node.ErrAuth, asUser(t, server, rules), op)
			assert.Equal(t, notRun, wire.RefusesCommand(err.Err), "%s: %v", rules, err)
		}
	}
}

func TestRedisTLS(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithTLS(), redisproc.WithPassword("secret"))
	opt, err := node.ParseAddress("rediss://:secret@" + server.TLSAddr())
	require.NoError(t, err)
	require.NotNil(t, opt.TLSConfig)

	stranger := openWith(t, opt)
	r := do(stranger, acquire("o1", "a"))[0]
	require.ErrorIs(t, r.Err, node.ErrUnreachable)
	assert.Contains(t, r.Err.Error(), "certificate")
	assert.True(t, r.Unsent)

	opt.TLSConfig.RootCAs = server.CertPool()
	n := opened(t, openWith(t, opt))
	want(t, wire.Granted, n, acquire("o1", "a"))
	require.NoError(t, n.Probe(context.Background()))
	server.Restart()
	want(t, wire.Healed, n, renew("o1", "a"))

	// The caller sets its own dialler through the library's older hook.
	opt.DialFn = nil
	opt.DialCtxFn = nil
	var dialled []string
	opt.DialFn = recordingDialFn(&dialled)
	want(t, wire.Granted, openWith(t, opt), renew("o1", "a"))
	assert.Equal(t, []string{server.TLSAddr()}, dialled)

	// One node speaks TLS to a plain port. The other node speaks plain text to a TLS port.
	wrong := hasty(server.Addr())
	wrong.TLSConfig = opt.TLSConfig
	fails(t, node.ErrTimeout, openWith(t, wrong), acquire("o1", "a"))
	r = do(openWith(t, hasty(server.TLSAddr())), acquire("o1", "a"))[0]
	require.Error(t, r.Err)
	assert.True(t, r.Unsent)
}

func TestRedisSkippedVerification(t *testing.T) {
	server := redisproc.Start(t, redisproc.WithTLS())
	want(t, wire.Granted, opened(t, open(t, "rediss://"+server.TLSAddr()+"?skip_verify=true")), acquire("o1", "a"))
}

func TestRedisDatabase(t *testing.T) {
	server := start(t)
	for _, address := range []string{"redis://" + server.Addr() + "/3", "unix://" + server.Socket() + "?db=3"} {
		command(t, server, "FLUSHALL")
		n := opened(t, open(t, address))
		want(t, wire.Granted, n, acquire("o1", "a"))
		assert.Empty(t, held(server))
		assert.Contains(t, command(t, server, "INFO", "keyspace"), "db3:keys=3", "the lock, its fence, and the marker")
	}
	fails(t, node.ErrMisconfigured, open(t, "redis://"+server.Addr()+"/99"), acquire("o1", "a"))
}
