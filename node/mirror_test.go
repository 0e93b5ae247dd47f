package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redislua"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// atTestTime precedes a script. The script then has the clock, the identity and the subscribers of the
// test. Keys live almost for ever, and the hash test:ends has the time at which each key would end.
const atTestTime = `
local real = redis
local redis
do
  local now, identity, live = %d, '%s', {%s}
  local forever = '10000000000'
  local function ends(key, ms)
    real.call('HSET', 'test:ends', key, now + ms)
  end
  local function under(run)
    return function(verb, a, b, c, d, ...)
      if verb == 'TIME' then
        return {tostring(math.floor(now / 1000)), tostring(now %% 1000 * 1000)}
      elseif verb == 'INFO' then
        return '# Replication\r\nmaster_replid:' .. identity .. '\r\n'
      elseif verb == 'PUBLISH' then
        real.call('RPUSH', 'test:sent', a, b)
        return live[a] and 1 or 0
      elseif verb == 'PEXPIRE' then
        if tonumber(b) <= 0 then
          return run(verb, a, b)
        end
        local set = run(verb, a, forever)
        if set == 1 then
          ends(a, b)
        end
        return set
      elseif verb == 'PTTL' then
        local left = run(verb, a)
        return type(left) == 'number' and left >= 0 and real.call('HGET', 'test:ends', a) - now or left
      elseif verb == 'SET' and c == 'PX' then
        local set = run(verb, a, b, c, forever)
        ends(a, d)
        return set
      end
      local args = {a, b, c, d, ...}
      return run(verb, unpack(args))
    end
  end
  redis = setmetatable({call = under(real.call), pcall = under(real.pcall)}, {__index = real})
end
`

// atEnd removes the keys that end at a time.
const atEnd = `
local all = redis.call('HGETALL', 'test:ends')
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) <= tonumber(ARGV[1]) then
    if redis.call('PTTL', all[i]) >= 0 then
      redis.call('DEL', all[i])
    end
    redis.call('HDEL', 'test:ends', all[i])
  end
end
return 1
`

// allKeys lists all keys with their types, ends and values.
const allKeys = `
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', key).ok, {}
  if kind == 'hash' then
    value = redis.call('HGETALL', key)
  elseif kind == 'zset' then
    value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif key ~= 'quorumlock:fences' then
    value = {kind}
  end
  local ends = redis.call('PTTL', key) < 0 and '0' or redis.call('HGET', 'test:ends', key)
  table.insert(value, 1, key)
  table.insert(value, 2, ends)
  all[#all + 1] = value
end
return all
`

// storedKey is one key of a server.
type storedKey struct {
	ends   int64 // in ms since the Unix epoch; 0 is never
	values []string
}

// field returns a value of a hash or a score of a sorted set.
func (k storedKey) field(name string) (string, bool) {
	pairs := k.values
	if len(pairs)%2 != 0 {
		return "", false
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == name {
			return pairs[i+1], true
		}
	}
	return "", false
}

// mirror is a server beside twins that get the same commands at the same times.
type mirror struct {
	twins
	client rueidis.Client
	names  []string
	slots  []string
	pool   string
	keep   time.Duration
	// generation and lost are of the last latch that was told.
	generation uint64
	lost       int64

	seen map[string]int
}

func newMirror(t *testing.T) *mirror {
	server := redisproc.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	p := &mirror{
		twins: newTwins(t), client: client, names: []string{"a", "b", "{c}", "d\n'\x00 \xff"}, pool: wire.PoolName("s"),
		keep: 10 * time.Second, seen: make(map[string]int),
	}
	for i := range 5 {
		p.slots = append(p.slots, wire.SlotName(p.pool, i))
	}
	return p
}

func (p *mirror) begin(seed uint64) {
	p.twins.begin(seed)
	p.limits = wire.Limits{MaxTTL: 10 * time.Minute, MaxClockSkew: time.Minute}
	p.command("FLUSHDB")
	p.open()
}

// open ends the recovery of all.
func (p *mirror) open() {
	marked := p.run(wire.Op{Kind: wire.Mark, Limits: p.limits})
	p.run(wire.Op{Kind: wire.Open, Limits: p.limits, Marker: marked[0].Marker})
}

func (p *mirror) command(args ...string) rueidis.RedisResult {
	return p.client.Do(context.Background(), p.client.B().Arbitrary(args...).Build())
}

func (p *mirror) now() int64 { return p.clock.Wall().UnixMilli() }

// pass moves the clocks.
func (p *mirror) pass(d time.Duration) {
	p.history = append(p.history, fmt.Sprint("pass ", d))
	p.clock.Advance(d)
	require.NoError(p, p.command("EVAL", atEnd, "0", strconv.FormatInt(p.now(), 10)).Error())
	for _, engine := range []*redislua.Server{p.engine, p.slow} {
		for _, name := range engine.Do("KEYS", "*").Items {
			if engine.Do("PTTL", name.Text).Int == 0 {
				engine.Do("DEL", name.Text)
			}
		}
	}
}

// run runs operations on all, and compares what they reply, send and keep.
func (p *mirror) run(ops ...wire.Op) []wire.Reply {
	for i := range ops {
		p.history = append(p.history, fmt.Sprintf("%+v", ops[i]))
	}
	var channels strings.Builder
	for client, live := range p.live {
		fmt.Fprintf(&channels, "['%s%s'] = %t,", wire.InboxPrefix, client, live)
	}
	header := fmt.Sprintf(atTestTime, p.now(), p.identity, channels.String())
	replies := make([]wire.Reply, len(ops))
	p.writer.packer.clear()
	for round := spans(nil, ops); round != nil; round = unfinished(round, ops, replies) {
		for _, r := range round {
			p.writer.whole = r.whole
			args := p.eval(ops[r.from:r.to])
			reply := p.both(args...)
			args[1] = header + args[1]
			onServer, _ := p.command(args...).ToMessage()
			p.check(replyText(reply) == messageText(onServer), "the server replied\n  %s\nand the engine\n  %s", messageText(onServer), replyText(reply))
			p.compareMessages()
			p.compareKeys()
			p.writer.decodeMessage(ops[r.from:r.to], onServer, replies[r.from:r.to])
		}
	}
	for i, r := range replies {
		p.check(r.Err == nil || reasonOf(r.Err) != ErrProtocol, "%v", r.Err) //nolint:errorlint // a reason is never wrapped
		p.history = append(p.history, fmt.Sprintf("  %+v", r))
		p.seen[fmt.Sprintf("%v %v", ops[i].Kind, r.Outcome)]++
		if r.Latch != nil {
			p.generation, p.lost = r.Latch.Generation, r.Latch.Lost
		}
	}
	return replies
}

// compareMessages compares the messages of a command.
func (p *mirror) compareMessages() {
	onServer, err := p.command("LRANGE", "test:sent", "0", "-1").AsStrSlice()
	require.NoError(p, err)
	p.check(slices.Equal(onServer, p.sent), "the server sent\n  %q\nand the engine\n  %q", onServer, p.sent)
	p.command("DEL", "test:sent")
	for i := 0; i < len(p.sent); i += 2 {
		if _, message, ok := wire.Published(p.sent[i], p.sent[i+1]); ok {
			p.seen[message.Kind.String()]++
		}
	}
}

// stored reads all keys of the server.
func (p *mirror) stored() map[string]storedKey {
	all, err := p.command("EVAL", allKeys, "0").ToArray()
	require.NoError(p, err)
	found := make(map[string]storedKey)
	for _, item := range all {
		texts, err := item.AsStrSlice()
		require.NoError(p, err)
		ends, err := strconv.ParseInt(texts[1], 10, 64)
		require.NoError(p, err, "%q", texts)
		found[texts[0]] = storedKey{ends, texts[2:]}
	}
	delete(found, "test:ends")
	return found
}

// compareKeys compares all keys, with their values and ends.
func (p *mirror) compareKeys() {
	stored := p.stored()
	p.checkQueues(stored)
	p.checkIndex(stored)
	for _, name := range p.engine.Do("KEYS", "*").Items {
		key, there := stored[name.Text]
		p.check(there, "only the engine has the key %q", name.Text)
		delete(stored, name.Text)
		ends := p.engine.Do("PTTL", name.Text).Int
		if ends >= 0 {
			ends += p.now()
		}
		p.check(max(ends, 0) == key.ends, "the end of %q: %d on the server, %d in the engine", name.Text, key.ends, ends)
		eternal := name.Text == "quorumlock:node" || name.Text == "quorumlock:fences" || name.Text == p.pool
		p.check(eternal || key.ends > p.now(), "the end of %q: %d", name.Text, key.ends)
		var list []string
		switch kind := p.engine.Do("TYPE", name.Text).Text; kind {
		case "hash":
			list = itemTexts(p.engine.Do("HGETALL", name.Text))
		case "zset":
			list = itemTexts(p.engine.Do("ZRANGE", name.Text, "0", "-1", "WITHSCORES"))
		default:
			all, err := p.command("GETRANGE", name.Text, "0", "-1").ToString()
			require.NoError(p, err)
			p.check(p.engine.Do("GETRANGE", name.Text, "0", "-1").Text == all, "the text of %q", name.Text)
			continue
		}
		p.check(slices.Equal(pairs(list), pairs(key.values)), "the key %q:\n  %q on the server\n  %q in the engine", name.Text, key.values, list)
	}
	p.check(len(stored) == 0, "only the server has the keys %v", stored)
}

// checkIndex checks what must be true of the index of a pool: nobody holds a slot that is free there, nor is a slot held
// there for longer than it lives.
func (p *mirror) checkIndex(stored map[string]storedKey) {
	index := stored[strings.Replace(p.pool, "permits", "slots", 1)].values
	for i := 0; i < len(index); i += 2 {
		if index[i] == "" {
			continue
		}
		slot, held := stored[wire.SlotName(p.pool, int(number(index[i])))]
		ends := number(index[i+1])
		p.check(held == (ends > 0) || !held && ends <= p.now(), "slot %s of the index ends at %d; it is held: %t", index[i], ends, held)
		p.check(!held || ends <= slot.ends, "slot %s of the index ends at %d, its key at %d", index[i], ends, slot.ends)
		p.seen["indexed"]++
	}
}

// checkQueues checks what must be true of the keys of each queue.
func (p *mirror) checkQueues(stored map[string]storedKey) {
	for _, name := range append([]string{p.pool}, p.names...) {
		queue, waiting, writers := stored[wire.Key("queue", name)], stored[wire.Key("waiting", name)], stored[wire.Key("writers", name)]
		_, indexed := waiting.field("+")
		for i := 0; i < len(queue.values); i += 2 {
			id := queue.values[i]
			deadline, ok := waiting.field(id)
			p.check(ok, "waiter %q of %q has no deadline", id, name)
			due, ok := waiting.field("")
			p.check(ok, "no deadline of all waiters of %q", name)
			p.check(number(due) <= number(deadline), "deadline of %q: %s is before %s", id, deadline, due)
			least := number(deadline) - p.keep.Milliseconds()/32
			p.check(queue.ends >= least, "the queue of %q ends before its waiter %q", name, id)
			p.check(waiting.ends >= least, "the hash of %q ends before its waiter %q", name, id)
			if number(deadline) <= p.now() {
				continue // the next operation removes it
			}
			if indexed && !reads(id) {
				score, ok := writers.field(id)
				p.check(ok && score == queue.values[i+1], "index of %q: %q has %s instead of %s", name, id, score, queue.values[i+1])
				p.check(writers.ends >= least, "the index of %q ends before its waiter %q", name, id)
			}
			if reads(id) {
				p.check(indexed, "a reader without an index in the queue of %q", name)
			}
		}
		for i := 0; i < len(waiting.values); i += 2 {
			id := waiting.values[i]
			if id == "" || id == "-" || id == "+" {
				continue
			}
			_, entered := queue.field(strings.TrimPrefix(id, "+"))
			p.check(entered || name == p.pool, "field %q of %q has no entry", id, name)
		}
	}
}

// reads reports whether the waiter, or the owner, with this id is a reader. All other ids of the test end in a digit.
func reads(id string) bool { return strings.HasSuffix(id, wire.ReaderMark) }

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func anyOf[T any](p *mirror, of ...T) T { return of[p.IntN(len(of))] }

// someNames draws one name, sometimes more.
func (p *mirror) someNames() []string {
	if p.IntN(4) > 0 {
		return []string{anyOf(p, p.names[:2]...)}
	}
	n := 1 + p.IntN(3)
	list := slices.Clone(p.names)
	p.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:n]
}

func (p *mirror) token() uint64 {
	return uint64(p.now()*1000 + anyOf(p, 0, 0, 0, 0, -1000, 5000, 1e6, -1e6, int64(p.IntN(2000))-1000))
}

// ownerOf returns the owner for which a waiter acquires.
func ownerOf(id string) string { return strings.Replace(id, ":", ":o", 1) }

// operation draws an operation on locks.
func (p *mirror) operation() wire.Op {
	op := wire.Op{
		Kind:  anyOf(p, wire.Acquire, wire.Acquire, wire.Acquire, wire.Acquire, wire.Renew, wire.Release, wire.Release, wire.Release, wire.Leave, wire.ForceRelease, wire.Inspect, wire.Shorten),
		Names: p.someNames(), TTL: anyOf(p, 5*time.Second, 30*time.Second, 200*time.Millisecond, p.limits.MaxTTL),
		Token: p.token(), Limits: p.limits, Fair: p.IntN(4) > 0,
	}
	id := anyOf(p, "c:1@80", "c:2", "d:3@500", "d:4@60", "e:5")
	if p.IntN(50) == 0 {
		op.TTL = p.limits.MaxTTL + time.Millisecond
	}
	op.Reads = p.IntN(3) == 0 && op.Kind <= wire.Release
	if op.Reads {
		id = anyOf(p, "c:6@80r", "c:7@r", "d:8@90r", "e:9@r")
		op.Floor = anyOf(p, 0, 0, 0, p.token())
	}
	op.Owner = ownerOf(id)
	if op.Reads && p.IntN(4) == 0 {
		op.Owner = "c:o1@80" // a writer becomes a reader
	}
	switch {
	case op.Kind == wire.Acquire && !op.Reads && p.IntN(6) == 0:
		op.Reserve = uint64(p.IntN(5000))
	case op.Kind == wire.ForceRelease:
		op.Owner = anyOf(p, "", "", "c:o1@80", "c:o6@80r")
		op.Buried = anyOf(p, nil, []string{"c:o2", "c:o7@r"})
	}
	op.Announce = (op.Kind == wire.Release || op.Kind == wire.Shorten || op.Kind == wire.ForceRelease) && p.IntN(8) == 0
	waits := op.Kind == wire.Acquire && p.IntN(5) > 0 || op.Kind == wire.Release && p.IntN(2) == 0 || op.Kind == wire.Leave ||
		op.Kind == wire.Renew && op.Reads && !reads(op.Owner)
	if waits {
		op.Waiter.ID = id
		if op.Kind == wire.Renew {
			op.Waiter.ID = strings.Replace(op.Owner, ":o", ":", 1)
		}
	}
	if waits && (op.Kind == wire.Acquire || op.Kind == wire.Release && p.IntN(3) == 0) {
		op.Waiter.Ticket, op.Waiter.Keep = p.now()*1000+int64(p.IntN(9))*100_000, anyOf(p, p.keep, p.keep, p.keep/4)
	}
	return op
}

// ofSlots draws an operation on slots.
func (p *mirror) ofSlots() wire.Op {
	op := wire.Op{
		Kind: anyOf(p, wire.Acquire, wire.Acquire, wire.Acquire, wire.Release, wire.Release, wire.Leave, wire.Resize, wire.Renew, wire.ForceRelease, wire.Shorten), TTL: anyOf(p, 5*time.Second, 30*time.Second, 200*time.Millisecond),
		Token: p.token(), Limits: p.limits, Fair: p.IntN(4) > 0, Pool: wire.Pool{Name: p.pool, Size: 3},
	}
	if p.IntN(4) == 0 || op.Kind == wire.Resize {
		op.Pool.Size, op.Pool.Version = 1+p.IntN(5), uint64(p.IntN(4))
	}
	id := anyOf(p, "c:1@80", "c:2*2@60", "d:3@500", "d:4*2", "e:5")
	op.Owner = ownerOf(id)
	slots := slices.Clone(p.slots[:4])
	p.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	op.Names = slots[:2]
	if !strings.Contains(id, "*2") {
		op.Names = slots[:1]
	}
	switch op.Kind {
	case wire.Leave, wire.Resize:
		op.Names = []string{p.pool}
	case wire.Release:
		op.Names = slots
	case wire.Renew, wire.ForceRelease, wire.Shorten:
		op.Pool = wire.Pool{}
	}
	if op.Kind == wire.Leave || op.Kind == wire.Acquire && p.IntN(5) > 0 || op.Kind == wire.Release && p.IntN(2) == 0 {
		op.Waiter.ID = id
	}
	if op.Waiter.ID != "" && (op.Kind == wire.Acquire || op.Kind == wire.Release && p.IntN(3) == 0) {
		op.Waiter.Ticket, op.Waiter.Keep = p.now()*1000+int64(p.IntN(9))*100_000, p.keep
	}
	return op
}

// ofLatch draws an operation on a latch.
func (p *mirror) ofLatch() wire.Op {
	op := wire.Op{Kind: wire.Latch, Names: []string{anyOf(p, "a", "{c}")}, TTL: anyOf(p, 5*time.Second, 30*time.Second), Token: p.token(), Limits: p.limits}
	if p.IntN(8) == 0 {
		op.Kind = wire.Unlatch
		return op
	}
	l := &wire.LatchOp{
		First: p.IntN(3) > 0, Chosen: p.IntN(3) == 0, Void: p.IntN(3) == 0, List: p.IntN(2) == 0,
		Since: op.Token, IDs: anyOf(p, nil, []string{"x"}, []string{"y", "x"}, []string{"z", "\xff\x00"}),
	}
	if p.IntN(3) > 0 {
		l.Count = 2 + p.IntN(2)
	}
	if p.IntN(3) == 0 {
		l.Exact, l.Generation, op.Token = true, anyOf(p, 0, p.generation, p.generation, p.token()), 0
	}
	if p.IntN(3) == 0 {
		l.Whole = p.lost
	}
	if p.IntN(2) == 0 {
		l.Inbox, l.Keep = anyOf(p, "c", "d", "e"), anyOf(p, 0, p.keep)
	}
	op.Latch = l
	return op
}

// step changes something at random.
func (p *mirror) step(op func() wire.Op) {
	switch p.IntN(40) {
	case 0:
		p.pass(anyOf(p, 5*time.Second, 11*time.Second, time.Minute))
	case 1, 2, 3, 4, 5, 6, 7, 8:
		p.pass(anyOf[time.Duration](p, 1, 10, 30, 50, 60, 100, 250, 500, 2000) * time.Millisecond)
	case 9:
		client := anyOf(p, "c", "d", "e")
		p.history = append(p.history, "inbox of "+client)
		p.live[client] = !p.live[client]
	case 10:
		if p.IntN(5) == 0 {
			p.disturb()
		}
	case 11, 12:
		ops := []wire.Op{op(), op(), op()}
		for i := range ops {
			ops[i].TTL = ops[0].TTL
			if p.IntN(2) == 0 && ops[i].Kind != wire.Leave {
				ops[i].Waiter = wire.Waiter{}
			}
		}
		p.run(ops...)
	default:
		p.run(op())
	}
}

// disturb makes all lose their memory, or their identity.
func (p *mirror) disturb() {
	if p.IntN(2) == 0 {
		p.history = append(p.history, "flush")
		p.command("FLUSHDB")
		p.both("FLUSHALL")
	} else {
		p.history = append(p.history, "restart")
		p.identify()
	}
	if p.IntN(6) > 0 {
		p.open()
	}
}

// TestMirror: after any history, a server and the engine of an in-memory node give the same replies, send the same
// messages, and have the same keys.
func TestMirror(t *testing.T) {
	for name, test := range map[string]struct {
		operation func(*mirror) wire.Op
		seeds     uint64
		seen      []string
	}{
		"locks": {(*mirror).operation, 24, []string{
			"woken", "standby", "returned", "forced", "acquire granted", "acquire denied", "acquire unknown", "renew granted", "renew healed",
			"renew denied", "release released", "release absent", "force-release released", "inspect inspected", "shorten released",
		}},
		"pools": {(*mirror).ofSlots, 16, []string{
			"woken", "standby", "returned", "acquire granted", "acquire denied", "release released", "resize granted", "resize denied",
			"force-release released", "shorten released", "renew healed", "indexed",
		}},
		"latches": {(*mirror).ofLatch, 8, []string{"counted", "latch granted", "latch denied", "delete latch granted", "delete latch denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newMirror(t)
			for seed := range test.seeds {
				p.begin(seed)
				for range 120 {
					p.step(func() wire.Op { return test.operation(p) })
				}
			}
			for _, what := range test.seen {
				assert.Positive(t, p.seen[what], what)
			}
		})
	}
}

func itemTexts(v redislua.Value) []string {
	texts := make([]string, len(v.Items))
	for i, item := range v.Items {
		texts[i] = item.Text
	}
	return texts
}

// pairs sorts the fields of a hash, with their values.
func pairs(list []string) []string {
	var found []string
	for i := 0; i+1 < len(list); i += 2 {
		found = append(found, list[i]+" = "+list[i+1])
	}
	slices.Sort(found)
	return found
}

// replyText and messageText write a reply in the same way. Of an error they write the first word: its rest names lines.
func replyText(v redislua.Value) string {
	switch v.Kind {
	case redislua.Integer:
		return fmt.Sprint(v.Int)
	case redislua.Bulk, redislua.Status:
		return fmt.Sprintf("%q", v.Text)
	case redislua.Error:
		word, _, _ := strings.Cut(v.Text, " ")
		return "error " + word
	case redislua.Array:
		texts := make([]string, len(v.Items))
		for i, item := range v.Items {
			texts[i] = replyText(item)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		return "nil"
	}
}

func messageText(m rueidis.RedisMessage) string {
	switch err := m.Error(); {
	case m.IsNil():
		return "nil"
	case err != nil:
		word, _, _ := strings.Cut(err.Error(), " ")
		return "error " + word
	case m.IsInt64():
		n, _ := m.AsInt64()
		return fmt.Sprint(n)
	case m.IsArray():
		items, _ := m.ToArray()
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = messageText(item)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		text, _ := m.ToString()
		return fmt.Sprintf("%q", text)
	}
}
