package node

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/internal/redislua"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// detours are the edits that remove all fast paths from a script.
var detours = map[string]string{
	"open = open and ttl - MAX_TTL <= 0":                                 "open = false",
	"if not (KEYS[6] or ARGV[5] or ANNOUNCE) then":                       "if false then",
	"local quiet = n > 0 and redis.pcall('EXISTS', unpack(looked)) == 0": "local quiet = false",
}

// twins are two engines of in-memory nodes that get the same commands at the same times. The slow one runs the scripts
// without their fast paths.
type twins struct {
	*testing.T
	*rand.Rand
	engine, slow *redislua.Server
	writer       writer
	clock        *testkit.Clock
	identity     string
	limits       wire.Limits
	// live are the clients with an inbox. sent are the messages of the last command, each behind its channel, and heard those
	// to such a client.
	live        map[string]bool
	sent, heard []string

	history []string
	// taken counts the runs of each detour, and each reply.
	taken map[string]int
}

func newTwins(t *testing.T) twins { return twins{T: t, taken: make(map[string]int)} }

func (w *twins) begin(seed uint64) {
	w.Rand = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // any numbers will do
	w.history = []string{fmt.Sprint("seed ", seed)}
	w.clock = testkit.NewClock(time.UnixMilli(1_700_000_000_123 + int64(w.IntN(1000))))
	w.engine, w.slow = redislua.New((*twinsHost)(w)), redislua.New((*twinsHost)(w))
	w.live = map[string]bool{"c": true, "d": true}
	w.identify()
}

// twinsHost gives the engines the clock, the identity and the subscribers of the test.
type twinsHost twins

func (h *twinsHost) Micros() int64 { return h.clock.Wall().UnixMicro() }

func (h *twinsHost) Replication() string {
	return "# Replication\r\nmaster_replid:" + h.identity + "\r\n"
}

func (h *twinsHost) Publish(channel, message string) int {
	h.sent = append(h.sent, channel, message)
	if client, ok := strings.CutPrefix(channel, wire.InboxPrefix); ok && h.live[client] {
		h.heard = append(h.heard, channel+" "+message)
		return 1
	}
	return 0
}

// identify gives the servers another identity.
func (w *twins) identify() { w.identity = fmt.Sprintf("%040x", w.Uint64()) }

// eval returns the command for operations, with the text of their script.
func (w *twins) eval(ops []wire.Op) (args []string) {
	script := w.writer.call(ops)
	args = slices.Concat([]string{"EVAL", script.source, strconv.Itoa(len(w.writer.keys))}, w.writer.keys, w.writer.args)
	for i := range args {
		args[i] = strings.Clone(args[i]) // its memory is used again
	}
	return args
}

// both runs a command on both engines. It compares the replies, the keys, and the messages that clients receive. It returns the
// reply of the engine with fast paths, and leaves the messages of that one in sent.
func (w *twins) both(args ...string) redislua.Value {
	run := func(engine *redislua.Server) (reply redislua.Value, heard []string) {
		w.sent, w.heard = nil, nil
		reply = engine.Do(args...)
		return reply, slices.Compact(w.heard) // a fast path may send a message twice
	}
	reply, heard := run(w.engine)
	sent := w.sent
	args = slices.Clone(args)
	for from, to := range detours {
		if len(args) > 1 && strings.Contains(args[1], from) {
			w.taken[from]++
			args[1] = strings.ReplaceAll(args[1], from, to)
		}
	}
	slowReply, slowHeard := run(w.slow)
	w.sent = sent
	w.taken[replyText(reply)]++
	w.check(replyText(slowReply) == replyText(reply), "the reply\n  %s\nand without fast paths\n  %s", replyText(reply), replyText(slowReply))
	w.check(slices.Equal(slowHeard, heard), "the messages\n  %q\nand without fast paths\n  %q", heard, slowHeard)
	kept, slowKept := contents(w.engine), contents(w.slow)
	w.check(maps.EqualFunc(slowKept, kept, slices.Equal), "the keys\n  %.5000q\nand without fast paths\n  %.5000q", kept, slowKept)
	return reply
}

// contents describes all keys, with their ends.
func contents(s *redislua.Server) map[string][]string {
	all := make(map[string][]string)
	for _, key := range itemTexts(s.Do("KEYS", "*")) {
		kind := s.Do("TYPE", key).Text
		values := []string{kind, fmt.Sprint(s.Do("PTTL", key).Int)}
		switch kind {
		case "hash":
			values = append(values, pairs(itemTexts(s.Do("HGETALL", key)))...)
		case "zset":
			values = append(values, itemTexts(s.Do("ZRANGE", key, "0", "-1", "WITHSCORES"))...)
		default: // in parts that the engine need not copy, since the fences are long
			const part = 1 << 10
			for at := 0; at < fencePlaces*fenceWidth; at += part {
				values = append(values, s.Do("GETRANGE", key, strconv.Itoa(at), strconv.Itoa(at+part-1)).Text)
			}
		}
		all[key] = values
	}
	return all
}

func (w *twins) check(ok bool, format string, args ...any) {
	if !ok {
		w.Fatalf("%s\nat %v, after\n%s", fmt.Sprintf(format, args...), w.clock.Wall(), strings.Join(w.history[max(0, len(w.history)-40):], "\n"))
	}
}

// strange are twins that get strange operations, in strange states.
type strange struct{ twins }

func (w *strange) begin(seed uint64) {
	w.twins.begin(seed)
	w.limits = wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute}
	w.run(wire.Op{Kind: wire.Mark, Limits: w.limits})
	w.both("HSET", "quorumlock:node", "since", "0")
}

// run runs operations in one command.
func (w *strange) run(ops ...wire.Op) {
	for i := range ops {
		w.history = append(w.history, fmt.Sprintf("%+v", ops[i]))
	}
	w.writer.packer.clear()
	w.history = append(w.history, "  "+replyText(w.both(w.eval(ops)...)))
}

func oneOf[T any](w *strange, of ...T) T { return of[w.IntN(len(of))] }

// token draws a token at an acceptance bound, near one, or anywhere.
func (w *strange) token() uint64 {
	if w.IntN(60) == 0 {
		return oneOf[uint64](w, 0, 1, 999, 12345, 1e6, 1<<53, 1<<63, 1<<64-1, 99999999999999999)
	}
	us, now := time.Duration.Microseconds, w.clock.Wall().UnixMicro()
	at := oneOf(w, now, now, now, now/1e6*1e6, now-us(w.limits.MaxTTL), now+us(w.limits.MaxClockSkew), now-us(w.limits.Recovery()))
	return uint64(at + oneOf(w, 0, 0, 0, 1, -1, 999, -999_999, 1e6, -1e6, int64(w.IntN(1e7))-5e6))
}

func (w *strange) op() wire.Op {
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
func (w *strange) step() {
	op := w.op()
	switch w.IntN(20) {
	case 0:
		w.clock.Advance(oneOf(w, time.Microsecond, time.Millisecond, 500*time.Millisecond, time.Second, time.Minute))
		return
	case 1, 13:
		w.disturb()
		return
	case 2:
		w.spoil()
		return
	case 3, 4:
		if op.Kind == wire.Renew {
			op.Kind = wire.Leave
		}
		op.Waiter = wire.Waiter{ID: oneOf(w, "c:1@80", "c:2@90", "e:1@50"), Ticket: w.clock.Wall().UnixMicro() + int64(w.IntN(1000)), Keep: time.Minute}
		if op.Kind == wire.Release && w.IntN(2) == 0 {
			op.Waiter.Keep = 0
		}
	case 5:
		op.Reads, op.Reserve, op.Floor = true, 0, oneOf(w, 0, w.token())
		op.Owner = oneOf(w, "r:1", "r:2") // a writer that reads passes on milliseconds
	case 6:
		op.Kind, op.Names = oneOf(w, wire.ForceRelease, wire.Acquire, wire.Renew, wire.Release), []string{"a", "{b}"}
	case 7, 8, 9, 10, 11:
		w.run(w.many()...)
		return
	}
	w.run(op)
}

// many returns operations that are sent as one command.
func (w *strange) many() []wire.Op {
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

// disturb changes the whole node.
func (w *strange) disturb() {
	switch w.IntN(9) {
	case 0:
		w.both("FLUSHALL")
	case 1:
		w.identify()
	case 2:
		w.clock.Advance(3700 * time.Second)
	case 3:
		w.limits = oneOf(w,
			wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute},
			wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute},
			wire.Limits{MaxTTL: 2 * time.Hour, MaxClockSkew: 1999 * time.Millisecond},
			wire.Limits{MaxTTL: 90_500 * time.Millisecond, MaxClockSkew: 500 * time.Millisecond})
	case 4:
		w.engine.Full = w.IntN(2) == 0
		w.slow.Full = w.engine.Full
	case 5:
		w.both("SET", "quorumlock:node", "a text")
	case 6:
		w.both("DEL", "quorumlock:node")
	default:
		w.both("HSET", "quorumlock:node", "since", "0")
	}
	if w.IntN(2) == 0 {
		return // operations find it out
	}
	found := wire.Marker{Identity: w.engine.Do("HGET", "quorumlock:node", "identity").Text}
	found.Since = number(w.engine.Do("HGET", "quorumlock:node", "since").Text)
	w.run(wire.Op{Kind: oneOf(w, wire.Mark, wire.Open, wire.Open), Limits: w.limits, Marker: &found})
}

// spoil changes a key.
func (w *strange) spoil() {
	key := oneOf(w, "a", "{b}", "quorumlock:fences", "quorumlock:fences", "quorumlock:queue:{a}", "quorumlock:waiting:{a}")
	if w.IntN(3) > 0 {
		w.both("DEL", key)
	}
	switch w.IntN(6) {
	case 0:
		w.both("SET", key, "a text")
	case 1:
		w.both("ZADD", key, "1", "a member")
	case 2:
		w.both("HSET", key, oneOf(w, "o9", "c:1"), "1") // without an end, if it is new
	}
}

// turn runs a random operation of a few clients that wait for a name in FIFO order.
func (w *strange) turn() {
	id := oneOf(w, "c:1@80", "c:2@90", "c:3", "c:4@500", "e:1@50")
	now := w.clock.Wall().UnixMicro()
	op := wire.Op{
		Kind: oneOf(w, wire.Acquire, wire.Acquire, wire.Acquire, wire.Release, wire.Release, wire.Leave), Names: []string{"a"}, Owner: "of " + id, TTL: 40 * time.Minute,
		Token: uint64(now), Limits: w.limits, Fair: true,
		Waiter: wire.Waiter{ID: id, Ticket: now + int64(w.IntN(100_000)), Keep: oneOf(w, time.Minute, time.Minute, 30*time.Second)},
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
		w.clock.Advance(oneOf(w, 29*time.Second, 61*time.Second)) // entries end
	} else if w.IntN(3) == 0 {
		w.clock.Advance(oneOf[time.Duration](w, 1, 30, 60, 100, 2000) * time.Millisecond)
	}
	w.run(op)
}

// The fast paths of the scripts give the same results after any history, also a strange one.
func TestFastPathsOfScripts(t *testing.T) {
	t.Parallel()
	w := &strange{newTwins(t)}
	for _, step := range []func(){w.step, w.turn} {
		for seed := range uint64(24) {
			w.begin(seed)
			for range 100 {
				step()
			}
		}
	}
	for way := range detours {
		assert.Positive(t, w.taken[way], "no detour round %s", way)
	}
	for _, reply := range []string{"0", "1", "2", "error WRONGTYPE", "error OOM"} {
		assert.Positive(t, w.taken[reply], "never replied %s", reply)
	}
}
