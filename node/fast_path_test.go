package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// detours are the edits that remove all fast paths from a script.
var detours = map[string]string{
	"open = open and ttl - MAX_TTL <= 0":                                 "open = false",
	"if not (KEYS[6] or ARGV[5] or ANNOUNCE) then":                       "if false then",
	"local quiet = n > 0 and redis.pcall('EXISTS', unpack(looked)) == 0": "local quiet = false",
}

// twins are two databases of one server that get the same operations. The first one runs the
// original scripts, and the second one runs the detours. Their clock is frozen meanwhile.
type twins struct {
	*testing.T
	*rand.Rand
	clients [2]rueidis.Client
	writer  writer
	now     int64
	limits  wire.Limits
	// history lists the commands and their answers. taken counts the runs of each detour and each
	// answer.
	history []string
	taken   map[string]int
}

func newTwins(t *testing.T) *twins {
	server := redisproc.Start(t, redisproc.WithDebug())
	w := &twins{T: t, taken: make(map[string]int)}
	for i := range w.clients {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{server.Addr()}, SelectDB: i, DisableCache: true, ForceSingleClient: true,
		})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		w.clients[i] = client
	}
	return w
}

// begin empties both databases and opens them.
func (w *twins) begin(seed uint64) {
	w.Rand = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // any numbers will do
	w.history = []string{fmt.Sprint("seed ", seed)}
	w.now = time.Now().Add(time.Minute).UnixMicro() // so that no key is gone meanwhile
	w.limits = wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}
	w.both("CONFIG", "SET", "maxmemory", "0")
	w.both("FLUSHDB")
	w.run(wire.Op{Kind: wire.Mark, Limits: w.limits})
	w.both("HSET", "quorumlock:node", "since", "0")
}

func (w *twins) raw(i int, args ...string) rueidis.RedisResult {
	c := w.clients[i]
	return c.Do(context.Background(), c.B().Arbitrary(args...).Build())
}

// both runs a command in both databases. It may fail.
func (w *twins) both(args ...string) {
	w.history = append(w.history, strings.Join(args, " "))
	for i := range w.clients {
		_ = w.raw(i, args...)
	}
}

// run runs operations in both databases and compares their answers.
func (w *twins) run(ops ...wire.Op) {
	frozen := fmt.Sprintf(`
		local real = redis
		local redis = setmetatable({call = function(verb, ...)
			return verb == 'TIME' and {'%d', '%d'} or real.call(verb, ...)
		end}, {__index = real})
	`, w.now/1e6, w.now%1e6)
	var said [2]string
	for i := range w.clients {
		w.writer.packer.clear()
		command := eval(w.clients[i].B(), &w.writer, ops)
		args := append([]string{}, command.Commands()...)
		for from, to := range detours {
			if i == 1 && strings.Contains(args[1], from) {
				w.taken[from]++
				args[1] = strings.ReplaceAll(args[1], from, to)
			}
		}
		args[1] = frozen + args[1]
		msg, err := w.raw(i, args...).ToMessage()
		said[i] = toldBy(msg, err)
	}
	for _, op := range ops {
		w.history = append(w.history, fmt.Sprintf("  %+v", op))
	}
	w.history = append(w.history, "  "+said[0])
	w.taken[said[0]]++
	w.compare(said[1], said[0], "answer")
}

// toldBy returns an answer as text. It hides the milliseconds that pass between the two databases.
func toldBy(msg rueidis.RedisMessage, err error) string {
	if err == nil {
		err = msg.Error()
	}
	if err != nil {
		return "error " + codeOf(err.Error())
	}
	if n, err := msg.AsInt64(); msg.IsInt64() && err == nil {
		return strconv.FormatInt(n, 10)
	}
	values, err := msg.ToArray()
	if err != nil {
		text, _ := msg.ToString()
		return strconv.Quote(text)
	}
	var texts []string
	for i, v := range values {
		text := toldBy(v, nil)
		// {name, owner, pttl, ...}
		if left, err := v.AsInt64(); err == nil && v.IsInt64() && i%3 == 2 && len(values) >= 3 && values[1].IsString() && left > delay {
			text = strconv.FormatInt((left+9_000)/10_000*10_000, 10)
		}
		texts = append(texts, text)
	}
	return "[" + strings.Join(texts, " ") + "]"
}

func (w *twins) compare(long, short any, of ...any) {
	if !assert.Equal(w, long, short, of...) {
		w.Fatalf("at %d, after\n%s", w.now, strings.Join(w.history[max(0, len(w.history)-30):], "\n"))
	}
}

// keys returns the values in a database and the time at which each key ends.
func (w *twins) keys(i int) (values map[string]string, ends map[string]int64) {
	keys, err := w.raw(i, "KEYS", "*").AsStrSlice()
	require.NoError(w, err)
	values, ends = make(map[string]string), make(map[string]int64)
	for _, key := range keys {
		kind, err := w.raw(i, "TYPE", key).ToString()
		require.NoError(w, err)
		value := w.raw(i, "TYPE", key)
		switch kind {
		case "hash":
			value = w.raw(i, "HGETALL", key)
		case "zset":
			value = w.raw(i, "ZRANGE", key, "0", "-1", "WITHSCORES")
		case "string":
			value = w.raw(i, "GET", key)
		}
		content, err := value.ToAny()
		require.NoError(w, err)
		if text, ok := content.(string); ok { // most places for fences are empty
			content = strings.ReplaceAll(text, strings.Repeat("\x00", 16), " ")
		}
		values[key] = fmt.Sprintf("%s %v", kind, content)
		ends[key], err = w.raw(i, "PTTL", key).AsInt64() // Redis has PEXPIRETIME from 7.0 on
		require.NoError(w, err)
		if ends[key] >= 0 {
			ends[key] += time.Now().UnixMilli()
		}
	}
	return values, ends
}

// delay is the maximum time between the two databases, in milliseconds.
const delay = 5000

// compareKeys compares both databases.
func (w *twins) compareKeys() {
	short, ends := w.keys(0)
	long, least := w.keys(1)
	w.compare(long, short, "keys")
	for key, end := range ends {
		w.compare(false, end > least[key]+delay || end < least[key]-delay, "end of %q: %d, not %d", key, end, least[key])
	}
}

// inScript is what servers before 7.0 put before the code of an error in a script.
var inScript = regexp.MustCompile(`^.*@user_script: ?\d+: -?`)

// codeOf returns the code of an error.
func codeOf(text string) string {
	code, _, _ := strings.Cut(inScript.ReplaceAllString(text, ""), " ")
	return code
}

func oneOf[T any](w *twins, of ...T) T { return of[w.IntN(len(of))] }

// token draws a token at an acceptance bound, near one, or anywhere.
func (w *twins) token() uint64 {
	if w.IntN(60) == 0 {
		return oneOf[uint64](w, 0, 1, 999, 12345, 1e6, 1<<53, 1<<63, 1<<64-1, 99999999999999999)
	}
	us := time.Duration.Microseconds
	at := oneOf(w, w.now, w.now, w.now, w.now/1e6*1e6, w.now-us(w.limits.MaxTTL), w.now+us(w.limits.MaxClockSkew), w.now-us(w.limits.Recovery()))
	return uint64(at + oneOf(w, 0, 0, 0, 1, -1, 999, -999_999, 1e6, -1e6, int64(w.IntN(1e7))-5e6))
}

func (w *twins) op() wire.Op {
	op := wire.Op{
		Kind:   oneOf(w, wire.Acquire, wire.Acquire, wire.Acquire, wire.Renew, wire.Renew, wire.Release),
		Names:  []string{oneOf(w, "a", "a", "{b}", "c'\n]]\x00\"", "quorumlock:d e")},
		Owner:  oneOf(w, "c:1", "c:2", "d:1", "it's]]\n\x00"),
		TTL:    oneOf(w, 30*time.Minute, 40*time.Minute, w.limits.MaxTTL, w.limits.MaxTTL+time.Millisecond),
		Token:  w.token(),
		Limits: w.limits,
		Fair:   w.IntN(2) == 0,
	}
	if op.Kind == wire.Acquire && w.IntN(5) == 0 {
		op.Reserve = oneOf[uint64](w, 1, 1000, 5e6, 1<<63, 1<<64-1)
	}
	op.Announce = op.Kind == wire.Release && w.IntN(10) == 0
	return op
}

// step runs a random operation.
func (w *twins) step() {
	switch w.IntN(20) {
	case 0:
		w.now += oneOf[int64](w, 1, 1000, 500_000, 1e6, 60e6)
	case 1, 13:
		w.disturb()
	case 2:
		w.spoil()
	case 3, 4:
		op := w.op()
		if op.Kind == wire.Renew {
			op.Kind = wire.Leave
		}
		op.Waiter = wire.Waiter{ID: oneOf(w, "c:1@80", "c:2@90", "d:1@50"), Ticket: w.now + int64(w.IntN(1000)), Keep: time.Minute}
		if op.Kind == wire.Release && w.IntN(2) == 0 {
			op.Waiter.Keep = 0
		}
		w.run(op)
	case 5:
		op := w.op()
		op.Reads, op.Reserve, op.Floor = true, 0, oneOf(w, 0, w.token())
		op.Owner = oneOf(w, "r:1", "r:2") // a writer that reads passes on milliseconds
		w.run(op)
	case 6:
		op := w.op()
		op.Kind, op.Names = oneOf(w, wire.ForceRelease, wire.Acquire, wire.Renew, wire.Release), []string{"a", "{b}"}
		w.run(op)
	case 7, 8, 9, 10, 11:
		w.run(w.many()...)
	case 12:
		w.both("EVAL", `if redis.call('HEXISTS', KEYS[1], 'since') == 1 then redis.call('HSET', KEYS[1], 'since', 0) end`, "1", "quorumlock:node")
	default:
		w.run(w.op())
	}
}

// many returns operations that are sent as one command.
func (w *twins) many() []wire.Op {
	ops := []wire.Op{w.op()}
	for range 6 {
		next := w.op()
		next.TTL = ops[0].TTL
		if isBatchable(&ops[0]) && canJoin(&ops[0], &next) {
			ops = append(ops, next)
		}
	}
	return ops
}

// disturb runs an operation that affects the whole node.
func (w *twins) disturb() {
	switch w.IntN(8) {
	case 0:
		w.both("FLUSHDB")
	case 1:
		w.both("DEBUG", "CHANGE-REPL-ID")
	case 2:
		w.now += 3700e6
	case 3:
		w.limits = oneOf(w,
			wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute},
			wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute},
			wire.Limits{MaxTTL: 2 * time.Hour, MaxClockSkew: 1999 * time.Millisecond},
			wire.Limits{MaxTTL: 90_500 * time.Millisecond, MaxClockSkew: 500 * time.Millisecond})
	case 4:
		w.both("CONFIG", "SET", "maxmemory", oneOf(w, "1", "0"))
	case 5:
		w.both("SET", "quorumlock:node", "a text")
	case 6:
		w.both("DEL", "quorumlock:node")
	}
	if w.IntN(2) == 0 {
		return // operations find it out
	}
	found := wire.Marker{}
	if values, err := w.raw(0, "HMGET", "quorumlock:node", "identity", "since").ToArray(); err == nil {
		found.Identity, _ = values[0].ToString()
		found.Since, _ = values[1].AsInt64()
	}
	w.run(wire.Op{Kind: oneOf(w, wire.Mark, wire.Open, wire.Open), Limits: w.limits, Marker: &found})
}

// spoil changes a key.
func (w *twins) spoil() {
	key := oneOf(w, "a", "{b}", "quorumlock:fences", "quorumlock:fences", "quorumlock:queue:{a}", "quorumlock:waiting:{a}")
	if w.IntN(3) > 0 {
		w.both("DEL", key)
	}
	switch w.IntN(6) {
	case 0:
		w.both("SET", key, "a text")
	case 1:
		w.both("RPUSH", key, "a list")
	case 2:
		w.both("HSET", key, "o9", "1")
	case 3:
		w.both("PERSIST", "a")
	}
}

// The fast paths of the scripts give the same results after any history.
func TestFastPathsOfScripts(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.listens("c")
	for seed := range uint64(12) {
		w.begin(seed)
		for range 100 {
			w.step()
			w.compareKeys()
		}
	}
	for way := range detours {
		assert.Positive(t, w.taken[way], "no detour round %s", way)
	}
	for _, answer := range []string{"0", "1", "2", "error WRONGTYPE", "error OOM"} {
		assert.Positive(t, w.taken[answer], "never answered %s", answer)
	}
}

// listens subscribes to the inbox of a client until the test ends.
func (w *twins) listens(client string) {
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		c := w.clients[0]
		_ = c.Receive(ctx, c.B().Subscribe().Channel("quorumlock:inbox:"+client).Build(), func(rueidis.PubSubMessage) {})
	}()
	w.Cleanup(func() { cancel(); <-heard })
	require.Eventually(w, func() bool {
		n, err := w.raw(1, "PUBLISH", "quorumlock:inbox:"+client, "").AsInt64()
		return err == nil && n > 0
	}, time.Minute, time.Millisecond)
}

// turn runs a random operation of a few clients that wait for a name in FIFO order.
func (w *twins) turn() {
	id := oneOf(w, "c:1@80", "c:2@90", "c:3", "c:4@500", "d:1@50")
	op := wire.Op{
		Kind: oneOf(w, wire.Acquire, wire.Acquire, wire.Acquire, wire.Release, wire.Release, wire.Leave), Names: []string{"a"}, Owner: "of " + id, TTL: 40 * time.Minute,
		Token: uint64(w.now), Limits: w.limits, Fair: true,
		Waiter: wire.Waiter{ID: id, Ticket: w.now + int64(w.IntN(100_000)), Keep: oneOf(w, time.Minute, time.Minute, 30*time.Second)},
	}
	if op.Kind == wire.Release && w.IntN(4) > 0 {
		op.Waiter.Keep = 0
	}
	if w.IntN(12) == 0 {
		op.Kind, op.Owner, op.Waiter = oneOf(w, wire.Acquire, wire.ForceRelease, wire.ForceRelease), "other", wire.Waiter{}
	}
	if w.IntN(12) == 0 {
		w.both("DEL", "a") // as if it had expired
	}
	if w.IntN(60) == 0 {
		w.now += oneOf[int64](w, 29e6, 61e6) // entries end
	} else if w.IntN(3) == 0 {
		w.now += oneOf[int64](w, 1000, 30_000, 60_000, 100_000, 2e6)
	}
	w.run(op)
}

// The fast paths for waiters give the same results after any history.
func TestFastPathsOfWaiters(t *testing.T) {
	t.Parallel()
	w := newTwins(t)
	w.listens("c")
	for seed := range uint64(10) {
		w.begin(seed)
		for range 100 {
			w.turn()
			w.compareKeys()
		}
	}
	assert.Greater(t, w.taken["1"], 100, "grants and releases")
}
