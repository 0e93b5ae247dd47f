package node_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// array returns a RESP array of strings, integers, and nils.
func array(values ...any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(values))
	for _, v := range values {
		switch v := v.(type) {
		case string:
			b.WriteString(bulk(v))
		case int, int64:
			fmt.Fprintf(&b, ":%d\r\n", v)
		case nil:
			b.WriteString("_\r\n")
		}
	}
	return b.String()
}

// wrong are answers that no script of this package gives.
var wrong = map[string]string{
	"OK":                "+OK\r\n",
	"a string":          "$3\r\nabc\r\n",
	"nil":               "_\r\n",
	"an old nil":        "$-1\r\n",
	"an old nil array":  "*-1\r\n",
	"true":              "#t\r\n",
	"a float":           ",1.5\r\n",
	"no grant":          ":0\r\n:0\r\n",
	"too many grants":   ":3\r\n",
	"a negative grant":  ":-1\r\n",
	"half a holder":     array("a", "o1"),
	"nested arrays":     "*3\r\n*0\r\n*1\r\n:1\r\n*0\r\n",
	"an array of nil":   array(nil),
	"a holder of nils":  array(nil, nil, nil),
	"a token of nil":    array("a", "o1", 1, nil),
	"a TTL in words":    array("a", "o1", "long"),
	"a token in words":  array("a", "o1", 1, "1"),
	"a name as number":  array(1, 2, 3, 4),
	"an owner of nil":   array("a", nil, 3, 4),
	"an array of error": "*3\r\n-ERR a\r\n-ERR b\r\n-ERR c\r\n",
	"a new word":        array("ELSEWHERE", 1),
	"a word":            array("RECOVERING"),
	"a clock in words":  array("CLOCK", "noon"),
	"limits of nil":     array("SETTINGS", nil, nil),
	"no length":         "*\r\n",
	"no Redis":          "?what\r\n",
	"too many answers":  "+OK\r\n+OK\r\n+OK\r\n",
	"nil twice":         "_\r\n_\r\n",
}

var (
	marks = wire.Op{Kind: wire.Mark}
	opens = wire.Op{Kind: wire.Open, Marker: &wire.Marker{Identity: "fake", Since: 1}}
)

var kinds = []wire.Op{
	acquire("o1", "a"), renew("o1", "a"), release("o1", "a"), inspect("a"), force("a"), marks, opens,
	waits("c:1", 1, "a"), fairly("c:1", 1, "a"), leaves("c:1", "a"), refreshes("c:1", "a"),
	reads(acquire("o1", "a")), reads(renew("o1", "a")), reads(release("o1", "a")),
}

func TestRedisWrongAnswers(t *testing.T) {
	for name, answer := range wrong {
		t.Run(name, func(t *testing.T) {
			n := open(t, redisproc.Serve(t, fake(always(answer))).Addr())
			for _, op := range kinds {
				if (op.Kind == wire.Release || op.Kind == wire.Leave) && answer[:2] == ":0" {
					continue
				}
				garbled(t, n, op)
			}
		})
	}
	for _, c := range []struct {
		op      wire.Op
		answers []string
	}{
		{acquire("o1", "a"), []string{
			":0\r\n", ":2\r\n", ":7\r\n", array(),
			array(0), array(-5), array("5"),
			array("a", "o2", 1), array("b", "o2", 1, 1), array("a", "o2", 1, 1, 1), array("a", "o2", 1, 1, "b", "o3", 1, 1),
			array("RECOVERING", 0, 0), array("RECOVERING", -1, 0), array("RECOVERING", "1", 0), array("RECOVERING", 1), array("RECOVERING", 1, nil),
			array("RECOVERING", 1, 0, 0), array("SETTINGS", 1), array("SETTINGS", 1, 1, 1), array("SETTINGS", 1, "1"),
			array("CLOCK"), array("CLOCK", 1, 1), array("CLOCK", "1"), array("clock", 1),
			array(1, 5, 0),
		}},
		{waits("c:1", 1, "a"), []string{
			array("a", "o2", 1, 1), array("b", "o2", 1, 1, 1), array("a", "o2", 1, 1, "1"), array("a", "o2", 1, 1, nil), array("a", "o2", 1, 1, 1, 1),
		}},
		{reads(acquire("o1", "a")), []string{
			":0\r\n", ":1\r\n", ":2\r\n", array(), array(0), array(-5), array("5"), array("a", "o2", 1), array("b", "o2", 1, 1), array(1, 5, 0),
		}},
		{reads(renew("o1", "a")), []string{":0\r\n", ":3\r\n", array(5), array(3, 5, 0), array("b", "o2", 1, 1)}},
		{leaves("c:1", "a"), []string{":-1\r\n", ":2\r\n", array(), array(1), array("a", "o2", 1)}},
		{refreshes("c:1", "a"), []string{
			":1\r\n", array(), array(1, "o2", 1), array(2, "o2", 1, 1), array(-1, "o2", 1, 1), array("1", "o2", 1, 1), array(1, 2, 1, 1),
			array(1, "o2", "1", 1), array(1, "o2", 1, nil), array(1, "o2", 1, 1, 1, "o2", 1, 1),
		}},
		{renew("o1", "a"), []string{
			":-1\r\n", ":0\r\n", ":3\r\n", array(), array(5), array(1, 5),
			array(0, 5, 0), array(3, 5, 0), array(1, 0, 0), array(1, -1, 0), array(1, "5", 0), array("1", 5, 0), array(1, 5, nil), array(1, 5, 0, 0),
			array("a", "o2", 1), array("b", "o2", 1, 1), array("a", "o2", 1, 1, "b", "o3", 1, 1),
			array("RECOVERING", 1, 0), array("CLOCK", 1), array("SETTINGS", 1),
		}},
		{release("o1", "a"), []string{":-1\r\n", ":2\r\n", array(), array(1), array("a", "o2", 1)}},
		{inspect("a"), []string{
			":1\r\n", array(), array("0"), array("a"), "*1\r\n*0\r\n",
			array("a", "o2", 1), array("a", "o2", 1, 1), array(0, "a", "o2", 1), array(0, "a", "o2", 1, "1"), array(0, "a", "o2", 1, 1, 1),
			array(0, "b", "o2", 1, 1), array(0, "a", "o2", 1, 1, "b", "o3", 1, 1), array(0, "a", "o2", 1, 1, "a", "o2", 1, 1),
		}},
		{inspect("a", "b"), []string{
			array(0, "b", "o2", 1, 1, "a", "o2", 1, 1), array(0, "a", wire.Readers, 1, 1, "b", "o2", 1, 1, "a", "o3", 1, 1, "b", "o2", 1, 1),
			array(0, "", "o2", 1, 1),
		}},
		{force("a"), []string{
			":0\r\n", array(0), array(0, "a", "o2", 1, 1), array("a", "o2", 1, 1), array("b", "o2", 1), array("a", "o2", 1, "b", "o3", 1),
		}},
		{marks, []string{
			":1\r\n", ":2\r\n", array(), array(1), array("id"), array("id", 1, 1), array("id", 1, 1, 0, 0), array(1, 1, 1, 0),
			array(nil, 1, 1, 0), array("id", "1", 1, 0), array("id", 1, nil, 0), array("id", 1, 1, "no"),
			array("RECOVERING", 1, 0), array("SETTINGS", 1, 1), array("a", "o2", 1, 1),
		}},
		{opens, []string{
			":0\r\n", ":2\r\n", array(), array(0), array(-1), array("1"), array("id"), array("id", 1, 1), array(1, 1, 1, 0),
			array("RECOVERING", 1, 0), array("SETTINGS", 1, 1), array("a", "o2", 1, 1),
		}},
	} {
		for _, answer := range c.answers {
			t.Run(fmt.Sprintf("%v %q", c.op.Kind, answer), func(t *testing.T) {
				garbled(t, open(t, redisproc.Serve(t, fake(always(answer))).Addr()), c.op)
			})
		}
	}
}

// garbled requires that the node rejects an answer as malformed and does not use any part of it.
func garbled(t *testing.T, n node.Node, op wire.Op) {
	t.Helper()
	r := do(n, op)[0]
	require.ErrorIs(t, r.Err, node.ErrProtocol, "%v: %+v", op.Kind, r)
	var err *node.Error
	require.ErrorAs(t, r.Err, &err)
	assert.True(t, err.Permanent(), "%v: %v", op.Kind, err)
	assert.Equal(t, op.Kind.String(), err.Op)
	assert.Equal(t, wire.Reply{Err: r.Err}, r)
}

// The answers have all forms that the scripts' headers define.
func TestRedisRightAnswers(t *testing.T) {
	const ms = time.Millisecond
	var (
		marker = &wire.Marker{
			Identity: "id", Since: 7, Left: 4 * ms, HadMarker: true,
		}
		holder = wire.Holder{Name: "a", Owner: "o2", TTL: 5 * ms, Token: 6}
		most   = time.Duration(1<<63-1) / ms * ms
	)
	for _, c := range []struct {
		op     wire.Op
		answer string
		reply  wire.Reply
	}{
		{acquire("o1", "a"), ":1\r\n", wire.Reply{Outcome: wire.Granted}},
		{acquire("o1", "a"), array(5), wire.Reply{Outcome: wire.Granted, Token: 5}},
		{acquire("o1", "a"), array("a", "o2", 5, 6), wire.Reply{Outcome: wire.Denied, Holder: holder}},
		{acquire("o1", "b", "a"), array("a", "o2", 5, 6), wire.Reply{Outcome: wire.Denied, Holder: holder}},
		{acquire("o1", "a"), array("a", "o2", -1, 0), wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "a", Owner: "o2", TTL: wire.NoExpiry}}},
		{acquire("o1", "a"), array("a", "o2", -2, -1), wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "a", Owner: "o2"}}},
		{acquire("o1", "a"), "*4\r\n+a\r\n+o2\r\n:9223372036854775807\r\n:6\r\n", wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "a", Owner: "o2", TTL: most, Token: 6}}},
		{waits("c:1", 1, "a"), array("a", "o2", 5, 6, 7), wire.Reply{Outcome: wire.Denied, Holder: holder, Rank: 7}},
		{waits("c:1", 1, "a"), array("a", "o2", 5, 6, -1), wire.Reply{Outcome: wire.Denied, Holder: holder}},
		{fairly("c:1", 1, "a"), array("a", "", 5, 6, 1), wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "a", TTL: 5 * ms, Token: 6}, Rank: 1}},
		{waits("c:1", 1, "a"), ":1\r\n", wire.Reply{Outcome: wire.Granted}},
		{leaves("c:1", "a"), ":0\r\n", wire.Reply{Outcome: wire.Absent}},
		{leaves("c:1", "a", "b"), ":2\r\n", wire.Reply{Outcome: wire.Released}},
		{acquire("o1", "SETTINGS"), array("SETTINGS", "o2", 5, 0), wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "SETTINGS", Owner: "o2", TTL: 5 * ms}}},
		{renew("o1", "a"), ":1\r\n", wire.Reply{Outcome: wire.Granted}},
		{renew("o1", "a"), ":2\r\n", wire.Reply{Outcome: wire.Healed}},
		{renew("o1", "a"), array(1, 5, 0), wire.Reply{Outcome: wire.Granted, Recovering: 5 * ms}},
		{renew("o1", "a"), array(2, 5, 1), wire.Reply{Outcome: wire.Healed, Recovering: 5 * ms, HadMarker: true}},
		{renew("o1", "a"), array("a", "o2", 5, 6), wire.Reply{Outcome: wire.Denied, Holder: holder}},
		{renew("o1", "a"), array("a", "", 0, 0), wire.Reply{Outcome: wire.Denied, Holder: wire.Holder{Name: "a"}}},
		{release("o1", "a"), ":0\r\n", wire.Reply{Outcome: wire.Absent}},
		{release("o1", "a", "b"), ":2\r\n", wire.Reply{Outcome: wire.Released}},
		{inspect("a"), array(0), wire.Reply{Outcome: wire.Inspected, Holders: []wire.Holder{}}},
		{inspect("a"), array(5), wire.Reply{Outcome: wire.Inspected, Holders: []wire.Holder{}, Recovering: 5 * ms}},
		{inspect("a"), array(-1, "a", "o2", 5, 6), wire.Reply{Outcome: wire.Inspected, Holders: []wire.Holder{holder}, Recovering: limits.Recovery(), Unmarked: true}},
		{force("a"), array(), wire.Reply{Outcome: wire.Absent, Holders: []wire.Holder{}}},
		{force("a"), array("a", "o2", 5), wire.Reply{Outcome: wire.Released, Holders: []wire.Holder{{Name: "a", Owner: "o2", TTL: 5 * ms}}}},
		{marks, array("id", 7, 4, 1), wire.Reply{Outcome: wire.Inspected, Marker: marker}},
		{opens, ":1\r\n", wire.Reply{Outcome: wire.Granted}},
		{opens, array("id", 7, 4, 1), wire.Reply{Outcome: wire.Denied, Marker: marker}},
	} {
		t.Run(fmt.Sprintf("%v %q", c.op.Kind, c.answer), func(t *testing.T) {
			n := open(t, redisproc.Serve(t, fake(always(c.answer))).Addr())
			assert.Equal(t, c.reply, do(n, c.op)[0])
		})
	}
}

// The error of a refusal states the reason. The connection stays open.
func TestRedisRefusals(t *testing.T) {
	const ms = time.Millisecond
	set := wire.Limits{MaxTTL: 3 * ms, MaxClockSkew: 2 * ms}
	at := func(token uint64) wire.Op {
		op := acquire("o1", "a")
		op.Token = token
		return op
	}
	restores := func(generation, since uint64) wire.Op {
		return wire.Op{Kind: wire.Latch, Names: []string{"a"}, TTL: long, Token: 300_000, Latch: &wire.LatchOp{Exact: true, Generation: generation, Since: since}}
	}
	same := acquire("o1", "a")
	same.Limits, same.TTL = set, 4*ms
	for _, c := range []struct {
		op     wire.Op
		answer string
		reason error
		cause  error
		left   time.Duration
	}{
		{acquire("o1", "a"), array("RECOVERING", 5, 1), node.ErrRecovering, &node.RecoveryError{Left: 5 * ms, Length: limits.Recovery(), HadMarker: true}, 5 * ms},
		{acquire("o1", "a"), array("RECOVERING", int64(1<<40), 0), node.ErrRecovering, &node.RecoveryError{Left: 1 << 40 * ms, Length: 1 << 40 * ms}, 1 << 40 * ms},
		{same, array("SETTINGS", 3, 2), node.ErrSettings, &node.SettingsError{Own: set, TTL: 4 * ms}, 0},
		{at(1_000_000), array("CLOCK", 400_000), node.ErrClock, &node.ClockError{Ahead: 600 * ms, Limit: limits.MaxClockSkew}, 0},
		{at(1_000_000), array("CLOCK", 1_400_000), node.ErrClock, &node.ClockError{Ahead: -400 * ms, Limit: limits.MaxTTL}, 0},
		{restores(100_000_000, 300_000), array("CLOCK", 400_000), node.ErrClock, &node.ClockError{Ahead: 99_600 * ms, Limit: limits.MaxClockSkew}, 0},
		{restores(300_000, 100_000_000), array("CLOCK", 400_000), node.ErrClock, &node.ClockError{Ahead: 99_600 * ms, Limit: limits.MaxClockSkew}, 0},
	} {
		t.Run(fmt.Sprintf("%v %q", c.op.Kind, c.answer), func(t *testing.T) {
			opt := rueidis.ClientOption{InitAddress: []string{redisproc.Serve(t, fake(always(c.answer))).Addr()}}
			made := dials(&opt)
			n := openWith(t, opt)
			for range 2 {
				r := do(n, c.op)[0]
				var err *node.Error
				require.ErrorAs(t, r.Err, &err)
				assert.Equal(t, &node.Error{Node: n.Name(), Op: c.op.Kind.String(), Reason: c.reason, Err: c.cause}, err)
				var recovery *node.RecoveryError
				restarted := errors.As(c.cause, &recovery) && recovery.HadMarker
				assert.Equal(t, wire.Reply{Err: r.Err, Recovering: c.left, HadMarker: restarted}, r)
			}
			assert.EqualValues(t, 1, made.Load())
		})
	}
}

// FuzzRedisAnswers lets a fake server send arbitrary bytes. The node returns an outcome or an
// error with a reason. It never panics.
func FuzzRedisAnswers(f *testing.F) {
	seeds := []string{
		":1\r\n", ":2\r\n", "*0\r\n", "*4\r\n+a\r\n+o2\r\n:-2\r\n:5\r\n", "-ERR x\r\n", "-NOSCRIPT x\r\n",
		array(5), array("a", "", 0, 0), array("a", "o2", 5), array(0, "a", "o2", 5, 6), array(-1), array(2, 5, 1),
		array("RECOVERING", 5, 1), array("SETTINGS", 5, 1), array("CLOCK", 5), array("id", 7, 4, 1),
	}
	for _, answer := range wrong {
		seeds = append(seeds, answer)
	}
	for _, answer := range seeds {
		for kind := range kinds {
			f.Add(byte(kind), answer)
		}
	}
	var answer string
	server := redisproc.Serve(f, fake(func([]string) (string, bool) { return answer, false }))
	opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		answer = text
		n, err := node.NewRedis(opt)
		require.NoError(t, err)
		op := kinds[int(kind)%len(kinds)]
		r := do(n, op)[0]
		require.NoError(t, n.Close())
		sound(t, op, r)
	})
}

// possible lists the outcomes of each kind of operation.
var possible = map[wire.Kind][]wire.Outcome{
	wire.Acquire:      {wire.Granted, wire.Denied},
	wire.Renew:        {wire.Granted, wire.Healed, wire.Denied},
	wire.Release:      {wire.Released, wire.Absent},
	wire.Inspect:      {wire.Inspected},
	wire.ForceRelease: {wire.Released, wire.Absent},
	wire.Mark:         {wire.Inspected},
	wire.Open:         {wire.Granted, wire.Denied},
	wire.Leave:        {wire.Released, wire.Absent},
	wire.Refresh:      {wire.Inspected},
}

// sound requires a reply that a caller can rely on.
func sound(t *testing.T, op wire.Op, r wire.Reply) {
	t.Helper()
	if r.Err != nil {
		var err *node.Error
		require.ErrorAs(t, r.Err, &err)
		require.Error(t, err.Reason)
		require.Equal(t, op.Kind.String(), err.Op)
		require.Equal(t, r.Recovering > 0, errors.Is(err, node.ErrRecovering))
		require.True(t, r.Recovering == 0 && !r.HadMarker || op.Kind == wire.Acquire)
		require.Equal(t, wire.Reply{Err: r.Err, Unsent: r.Unsent, Recovering: r.Recovering, HadMarker: r.HadMarker}, r)
		return
	}
	require.Contains(t, possible[op.Kind], r.Outcome)
	if r.Outcome == wire.Denied && op.Kind != wire.Open {
		require.Contains(t, op.Names, r.Holder.Name)
	}
	for _, h := range append(r.Holders, r.Holder) {
		require.GreaterOrEqual(t, h.TTL, wire.NoExpiry)
	}
	require.GreaterOrEqual(t, r.Recovering, time.Duration(0))
	require.True(t, r.Recovering > 0 || !r.HadMarker)
	if r.Marker != nil {
		require.GreaterOrEqual(t, r.Marker.Left, time.Duration(0))
	}
	if r.Token != 0 {
		require.Equal(t, wire.Acquire, op.Kind)
	}
	if r.Rank != 0 {
		require.True(t, r.Rank > 0 && r.Outcome == wire.Denied && op.Waiter.ID != "")
	}
}
