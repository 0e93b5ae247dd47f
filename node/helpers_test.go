package node_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

const (
	// long is the TTL of keys that must outlive the test.
	long = time.Minute
	// patience limits the wait for an event that must happen.
	patience = 30 * time.Second
	// impatient is the timeout of nodes whose calls are expected to time out.
	impatient = 150 * time.Millisecond
	// soon limits the duration of a call with that timeout. It is far below every default timeout
	// on the path. It is far above the delay that a busy machine adds.
	soon = 4 * time.Second
)

// limits apply to the operations of tests that set none.
var limits = wire.Limits{MaxTTL: 2 * time.Hour, MaxClockSkew: time.Minute}

// tokens makes every token unique.
var tokens atomic.Uint64

// complete fills in the fields that all operations share.
func complete(ops ...wire.Op) []wire.Op {
	ops = slices.Clone(ops)
	for i := range ops {
		if ops[i].Limits == (wire.Limits{}) {
			ops[i].Limits = limits
		}
		if ops[i].Token == 0 {
			ops[i].Token = uint64(time.Now().UnixMicro()) + tokens.Add(1)
		}
	}
	return ops
}

// start starts a server that is open.
func start(t testing.TB, opts ...redisproc.Option) *redisproc.Server {
	t.Helper()
	server := redisproc.Start(t, opts...)
	admit(t, server)
	return server
}

// admit opens a server as an administrator does.
func admit(t testing.TB, server *redisproc.Server) {
	t.Helper()
	require.NoError(t, opened(t, open(t, server.Socket())).Close())
}

// opened opens the node's server and returns the node.
func opened[N node.Node](t testing.TB, n N) N {
	t.Helper()
	m := eventually(t, wire.Inspected, n, wire.Op{Kind: wire.Mark}).Marker
	eventually(t, wire.Granted, n, wire.Op{Kind: wire.Open, Marker: m})
	return n
}

// open makes a node from an address and closes it when the test ends. It does not time
// out on a busy machine.
// serverNode is all that a node on a server can do.
type serverNode interface {
	node.Node
	wire.Connector
	wire.Located
	Tag() string
	Sharers() int
	WrapClient(wrap func(rueidis.Client) rueidis.Client)
	Reconnect(ctx context.Context) error
}

// identity returns the identity of a node's server.
func identity(n node.Node) string {
	identity, _ := n.Server()
	return identity
}

func open(t testing.TB, address string) serverNode {
	t.Helper()
	opt, err := node.ParseAddress(address)
	require.NoError(t, err)
	return openWith(t, opt)
}

func openWith(t testing.TB, opt rueidis.ClientOption) serverNode {
	t.Helper()
	if opt.ConnWriteTimeout == 0 {
		opt.ConnWriteTimeout = patience
	}
	if opt.Dialer.Timeout == 0 {
		opt.Dialer.Timeout = patience
	}
	n, err := node.NewRedis(opt)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	return n.(serverNode)
}

// hasty returns the options of a node with a short timeout.
func hasty(addr string) rueidis.ClientOption {
	opt := rueidis.ClientOption{InitAddress: []string{addr}, ConnWriteTimeout: impatient}
	opt.Dialer.Timeout = impatient
	return opt
}

// asUser opens a node as a user with nothing but these rights.
func asUser(t testing.TB, server *redisproc.Server, rules ...string) serverNode {
	t.Helper()
	rules = strings.Fields(strings.Join(rules, " "))
	command(t, server, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">secret"}, rules...)...)
	return open(t, "redis://u:secret@"+server.Addr())
}

// command runs a command that must succeed.
func command(t testing.TB, server *redisproc.Server, args ...string) string {
	t.Helper()
	text, err := server.Command(args...)
	require.NoError(t, err, "%v", args)
	return text
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// storedFence returns the text at the place of a name's fence.
func storedFence(t *testing.T, server *redisproc.Server, name string) string {
	t.Helper()
	at := node.FenceOffset(name)
	return command(t, server, "GETRANGE", "quorumlock:fences", fmt.Sprint(at), fmt.Sprint(at+15))
}

// setFence replaces the text at the place of a name's fence. The new text has at most 16 characters.
func setFence(t *testing.T, server *redisproc.Server, name, text string) {
	t.Helper()
	command(t, server, "SETRANGE", "quorumlock:fences", fmt.Sprint(node.FenceOffset(name)), text+strings.Repeat("\x00", 16-len(text)))
}

// held lists a server's keys in order, without the node's own keys.
func held(server *redisproc.Server) []string {
	return slices.DeleteFunc(server.Keys(), func(key string) bool { return strings.HasPrefix(key, "quorumlock:") })
}

func acquire(owner string, names ...string) wire.Op {
	return wire.Op{Kind: wire.Acquire, Names: names, Owner: owner, TTL: long}
}

func renew(owner string, names ...string) wire.Op {
	return wire.Op{Kind: wire.Renew, Names: names, Owner: owner, TTL: long}
}

func release(owner string, names ...string) wire.Op {
	return wire.Op{Kind: wire.Release, Names: names, Owner: owner}
}

// reads turns an operation into a reader's.
func reads(op wire.Op) wire.Op {
	op.Reads = true
	return op
}

func inspect(names ...string) wire.Op {
	return wire.Op{Kind: wire.Inspect, Names: names}
}

func force(names ...string) wire.Op {
	return wire.Op{Kind: wire.ForceRelease, Names: names, TTL: long}
}

// do runs one batch.
func do(n node.Node, ops ...wire.Op) []wire.Reply {
	replies := make([]wire.Reply, len(ops))
	n.Do(context.Background(), complete(ops...), replies)
	return replies
}

// want runs one operation and requires its outcome.
func want(t testing.TB, outcome wire.Outcome, n node.Node, op wire.Op) wire.Reply {
	t.Helper()
	r := do(n, op)[0]
	require.NoError(t, r.Err)
	require.Equal(t, outcome, r.Outcome, "%v", r.Outcome)
	return r
}

// wantAll runs one batch and requires its outcomes.
func wantAll(t testing.TB, n node.Node, ops []wire.Op, outcomes ...wire.Outcome) {
	t.Helper()
	for i, r := range do(n, ops...) {
		require.NoError(t, r.Err)
		require.Equal(t, outcomes[i], r.Outcome, "operation %d: %v", i, r.Outcome)
	}
}

// fails runs one operation that must fail for the given reason.
func fails(t testing.TB, reason error, n node.Node, op wire.Op) {
	t.Helper()
	_ = failure(t, reason, n, op)
}

// failure runs one operation that must fail and returns its error.
func failure(t testing.TB, reason error, n node.Node, op wire.Op) *node.Error {
	t.Helper()
	r := do(n, op)[0]
	require.ErrorIs(t, r.Err, reason)
	require.Equal(t, wire.Unknown, r.Outcome)
	var err *node.Error
	require.ErrorAs(t, r.Err, &err)
	return err
}

// eventually repeats an operation until the node answers, and requires the outcome. After a lost
// answer, the outcome of a repetition also counts.
func eventually(t testing.TB, outcome wire.Outcome, n node.Node, op wire.Op) wire.Reply {
	t.Helper()
	var last wire.Reply
	lost := false
	poll(t, func() bool {
		last = do(n, op)[0]
		lost = lost || last.Err != nil && !last.Unsent
		return last.Err == nil
	}, func() any { return last.Err })
	if again, ok := repeated[outcome]; ok && lost && last.Outcome == again {
		return last
	}
	require.Equal(t, outcome, last.Outcome, "%v", last.Outcome)
	return last
}

// repeated maps the outcome of an operation to the outcome of its repetition.
var repeated = map[wire.Outcome]wire.Outcome{wire.Released: wire.Absent, wire.Healed: wire.Granted}

// poll repeats a check at a short interval until it succeeds.
func poll(t testing.TB, ask func() bool, why func() any) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !ask() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("waited in vain: %v", why())
		}
	}
}

// recordingDialFn is a dialler of the older kind. It records the addresses that it dials.
func recordingDialFn(to *[]string) func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		*to = append(*to, addr)
		if cfg != nil {
			return tls.DialWithDialer(d, "tcp", addr, cfg)
		}
		return d.Dial("tcp", addr)
	}
}
