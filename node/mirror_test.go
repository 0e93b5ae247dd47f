package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/redislua"
	"github.com/quorumlock/quorumlock/internal/redisproc"
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

// mirror is a server and an in-memory node that get the same operations at the same times.
type mirror struct {
	*testing.T
	*rand.Rand
	client rueidis.Client
	writer writer
	memory *Memory
	engine *redislua.Server
	// sent are the messages of the engine, each behind its channel.
	sent   []string
	clock  *clock.Manual
	limits Limits
	names  []string
	slots  []string
	pool   string
	// live are the clients with an inbox.
	live    map[string]*memoryInbox
	keep    time.Duration
	history []string
	seen    map[string]int
}

func newMirror(t *testing.T) *mirror {
	server := redisproc.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	p := &mirror{T: t, client: client, names: []string{"a", "b", "{c}", "d\n'\x00 \xff"}, pool: PoolName("s"), seen: make(map[string]int)}
	for i := range 5 {
		p.slots = append(p.slots, SlotName(p.pool, i))
	}
	return p
}

func (p *mirror) begin(seed uint64) {
	p.Rand = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // any numbers will do
	p.history = []string{fmt.Sprint("seed ", seed)}
	p.clock = clock.NewManual(time.UnixMilli(1_700_000_000_123 + int64(p.IntN(1000))))
	p.memory, p.engine = NewMemory("m", p.clock), redislua.New((*mirrorHost)(p))
	p.limits = Limits{MaxTTL: 10 * time.Minute, MaxClockSkew: time.Minute}
	p.live = make(map[string]*memoryInbox)
	p.keep = 10 * time.Second
	p.identify()
	p.subscribe("c")
	p.subscribe("d")
	p.command("FLUSHDB")
	p.open()
}

// identify gives both nodes another identity.
func (p *mirror) identify() { p.memory.identity = fmt.Sprintf("%040x", p.Uint64()) }

// open ends the recovery of both nodes.
func (p *mirror) open() {
	p.run(Op{Kind: Mark, Limits: p.limits})
	p.run(Op{Kind: Open, Limits: p.limits, Marker: p.memory.markerReply()})
}

func (p *mirror) subscribe(client string) {
	b := &memoryInbox{node: p.memory, client: client, due: make(chan struct{}, 1)}
	p.memory.inboxes[b], p.live[client] = struct{}{}, b
}

func (p *mirror) unsubscribe(client string) {
	delete(p.memory.inboxes, p.live[client])
	delete(p.live, client)
}

func (p *mirror) command(args ...string) rueidis.RedisResult {
	return p.client.Do(context.Background(), p.client.B().Arbitrary(args...).Build())
}

func (p *mirror) now() int64 { return p.clock.Wall().UnixMilli() }

// at turns a time of the in-memory node into ms since the Unix epoch.
func (p *mirror) at(d time.Duration) int64 { return p.now() + (d - p.clock.Now()).Milliseconds() }

// pass moves both clocks.
func (p *mirror) pass(d time.Duration) {
	p.history = append(p.history, fmt.Sprint("pass ", d))
	p.clock.Advance(d)
	require.NoError(p, p.command("EVAL", atEnd, "0", strconv.FormatInt(p.now(), 10)).Error())
	for _, name := range p.engine.Do("KEYS", "*").Items {
		if p.engine.Do("PTTL", name.Text).Int == 0 {
			p.engine.Do("DEL", name.Text)
		}
	}
	// The keys of a queue may end before its last waiter does, by up to a 32nd of its time.
	stored := p.stored()
	for _, name := range append([]string{p.pool}, p.names...) {
		if _, ok := stored[key("queue", name)]; ok {
			continue
		}
		for _, e := range p.memory.queued(name) {
			p.check(p.at(e.deadline)-p.now() <= p.keep.Milliseconds()/32, "waiter %s in the queue of %q is gone too early", e.id, name)
		}
		p.memory.setQueue(name, nil)
	}
	// A waiter that got slots is expected in the hash. The server forgets it with the hash, or after a minute.
	hash, kept := stored[key("waiting", p.pool)]
	maps.DeleteFunc(p.memory.gone, func(of tombstoneKey, since time.Duration) bool {
		_, known := hash.field("+" + of.owner)
		return !kept || !known && since <= p.clock.Now()-time.Minute
	})
}

func (p *mirror) check(ok bool, format string, args ...any) {
	if !ok {
		p.Fatalf("%s\nat %d, after\n%s", fmt.Sprintf(format, args...), p.now(), strings.Join(p.history[max(0, len(p.history)-40):], "\n"))
	}
}

// run runs operations on both nodes, and compares their answers and messages.
func (p *mirror) run(ops ...Op) {
	for i := range ops {
		p.history = append(p.history, describe(&ops[i]))
	}
	if slices.ContainsFunc(ops, func(op Op) bool { return op.Kind == Acquire && op.Waiter.ID != "" }) {
		p.dropLate()
	}
	inMemory, onServer := make([]Reply, len(ops)), make([]Reply, len(ops))
	p.memory.Do(context.Background(), ops, inMemory)
	var channels strings.Builder
	for client := range p.live {
		fmt.Fprintf(&channels, "['%s%s'] = true,", inboxPrefix, client)
	}
	header := fmt.Sprintf(atTestTime, p.now(), p.memory.identity, channels.String())
	p.writer.packer.clear()
	for _, r := range spans(nil, ops) {
		command := eval(p.client.B(), &p.writer, ops[r.from:r.to])
		args := slices.Clone(command.Commands())
		for i := range args {
			args[i] = strings.Clone(args[i]) // its memory is used again
		}
		args[1] = header + args[1]
		result := p.command(args...)
		decodeAll(ops[r.from:r.to], result, onServer[r.from:r.to])
		args[1] = strings.TrimPrefix(args[1], header)
		p.compareEngine(result, args)
	}
	for i := range ops {
		said := told(inMemory[i])
		p.history = append(p.history, "  "+said)
		p.seen[fmt.Sprintf("%v %v", ops[i].Kind, inMemory[i].Outcome)]++
		if ops[i].Kind == Leave && inMemory[i].Err == nil {
			continue // the entry of a late waiter may still be on the server
		}
		p.check(said == told(onServer[i]), "the server's answer is\n  %s", told(onServer[i]))
	}
	p.compareMessages()
	p.compareKeys()
}

// dropLate removes the queues on the server in which all waiters are past their deadlines. There a granted waiter
// gets an entry, since the server does not look at deadlines first.
func (p *mirror) dropLate() {
	for _, name := range append([]string{p.pool}, p.names...) {
		if len(p.memory.queued(name)) > 0 {
			continue
		}
		if n, err := p.command("DEL", key("queue", name)).AsInt64(); err == nil && n > 0 {
			p.command("DEL", key("waiting", name), key("writers", name))
			p.engine.Do("DEL", key("queue", name), key("waiting", name), key("writers", name))
			maps.DeleteFunc(p.memory.gone, func(of tombstoneKey, _ time.Duration) bool { return of.name == name })
		}
	}
}

func describe(op *Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q owner %q ttl %v token %d", op.Kind, op.Names, op.Owner, op.TTL, op.Token)
	for text, on := range map[string]bool{" reads": op.Reads, " fair": op.Fair, " announce": op.Announce} {
		if on {
			b.WriteString(text)
		}
	}
	if op.Waiter.ID != "" {
		fmt.Fprintf(&b, " waiter %+v", op.Waiter)
	}
	if op.Pool.Name != "" {
		fmt.Fprintf(&b, " pool %+v", op.Pool)
	}
	fmt.Fprintf(&b, " reserve %d floor %d buried %q", op.Reserve, op.Floor, op.Buried)
	return b.String()
}

// told returns an answer as text.
func told(r Reply) string {
	if r.Err != nil {
		reason := reasonOf(r.Err)
		if err, ok := r.Err.(*Error); ok { //nolint:errorlint // never wrapped
			reason = err.Reason
		}
		return fmt.Sprintf("error %v, recovering %v, restarted %v", reason, r.Recovering, r.HadMarker)
	}
	slices.SortStableFunc(r.Holders, func(a, b Holder) int { return cmp.Compare(a.Name, b.Name) })
	marker := ""
	if r.Marker != nil {
		marker = fmt.Sprintf("%+v", *r.Marker)
	}
	text := r.Outcome.String()
	for _, part := range []struct {
		zero bool
		text string
	}{
		{r.Token == 0, fmt.Sprint(" token ", r.Token)},
		{r.Rank == 0, fmt.Sprint(" rank ", r.Rank)},
		{!r.Partial, " in part"},
		{r.Holder == Holder{}, fmt.Sprintf(" holder %+v", r.Holder)},
		{len(r.Holders) == 0, fmt.Sprintf(" holders %+v", r.Holders)},
		{r.Recovering == 0, fmt.Sprint(" recovering ", r.Recovering, r.HadMarker, r.Unmarked)},
		{r.Pool.Size == 0, fmt.Sprint(" pool ", r.Pool)},
		{r.Marker == nil, " marker " + marker},
	} {
		if !part.zero {
			text += part.text
		}
	}
	return text
}

// compareMessages compares the messages of an operation. A script may send one twice.
func (p *mirror) compareMessages() {
	once := func(list []string) []string {
		var found []string
		for _, text := range list {
			if !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
		return found
	}
	for client, b := range p.live {
		sent, err := p.command("LRANGE", "test:sent", "0", "-1").AsStrSlice()
		require.NoError(p, err)
		var onServer, inMemory []string
		for i := 0; i < len(sent); i += 2 {
			if sent[i] == inboxPrefix+client && !strings.HasPrefix(sent[i+1], "alive ") {
				m, ok := decodeMessage(sent[i+1])
				p.check(ok, "message %q", sent[i+1])
				m.Fence = 0 // some scripts do not know it
				onServer = append(onServer, fmt.Sprintf("%+v", m))
			}
		}
		for _, m := range b.messages {
			m.Fence = 0
			inMemory = append(inMemory, fmt.Sprintf("%+v", m))
			p.seen[m.Kind.String()]++
		}
		b.messages = nil
		p.check(slices.Equal(once(onServer), once(inMemory)), "messages to %s: the server sent\n  %v\n, and the in-memory node\n  %v", client, onServer, inMemory)
	}
	p.command("DEL", "test:sent")
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
	return found
}

// compareKeys compares what both nodes know.
func (p *mirror) compareKeys() {
	onServer, inMemory := p.onServer(), p.inMemory()
	for _, what := range slices.Sorted(maps.Keys(onServer)) {
		p.check(onServer[what] == inMemory[what], "%s: the server has\n  %s\nand the in-memory node\n  %s", what, onServer[what], inMemory[what])
	}
	for _, what := range slices.Sorted(maps.Keys(inMemory)) {
		p.check(onServer[what] == inMemory[what], "%s: the server has\n  %s\nand the in-memory node\n  %s", what, onServer[what], inMemory[what])
	}
}

// inMemory describes the state of the in-memory node.
func (p *mirror) inMemory() map[string]string {
	found, m, now := make(map[string]string), p.memory, p.clock.Now()
	for name, l := range m.locks {
		if l.expiry > now {
			found["lock "+name] = fmt.Sprintf("%s %d until %d", l.owner, l.token, p.at(l.expiry))
		}
	}
	for name, readers := range m.readers {
		var list []string
		for owner, ends := range readers {
			if ends > now {
				list = append(list, fmt.Sprintf("%s until %d", owner, p.at(ends)))
			}
		}
		if sort.Strings(list); list != nil {
			found["readers "+name] = strings.Join(list, ", ")
		}
	}
	for t, ends := range m.tombstones {
		if ends > now {
			found["tombstone "+key("tombstone", t.name)+":"+t.owner] = strconv.FormatInt(p.at(ends), 10)
		}
	}
	for name := range m.queues {
		var list []string
		for _, e := range m.queued(name) {
			since := ""
			if e.expected {
				since = strconv.FormatInt(p.at(e.woken), 10)
			}
			list = append(list, fmt.Sprintf("%s at %d until %d since %s", e.id, e.ticket, p.at(e.deadline), since))
		}
		if list != nil {
			found["queue "+name] = strings.Join(list, "\n  ")
		}
	}
	for name, s := range m.sizes {
		found["size "+name] = fmt.Sprintf("%d of %d", s.size, s.version)
	}
	if m.marker != nil {
		restarted := 0
		if m.marker.HadMarker {
			restarted = 1
		}
		found["marker"] = fmt.Sprint(m.marker.Identity, m.marker.Until, m.marker.Limits.MaxTTL.Milliseconds(), m.marker.Limits.MaxClockSkew.Milliseconds(), restarted)
	}
	for _, name := range append(slices.Clone(p.names), p.slots...) {
		if token := m.fence(name); token != 0 {
			found["fence "+name] = strconv.FormatUint(token, 10)
		}
	}
	return found
}

// onServer describes the state of the server in the same words. It also checks what only the server has.
func (p *mirror) onServer() map[string]string {
	found, stored, now := make(map[string]string), p.stored(), p.now()
	mortal := func(key string) storedKey {
		k := stored[key]
		delete(stored, key)
		p.check(k.values == nil || k.ends > now, "key %q has no end: %d", key, k.ends)
		return k
	}
	for _, name := range append(slices.Clone(p.names), p.slots...) {
		if l := mortal(name); l.values != nil {
			p.check(len(l.values) == 2, "lock %q has fields %q", name, l.values)
			token := l.values[1]
			if l.values[0] == Readers {
				token = "0"
			}
			found["lock "+name] = fmt.Sprintf("%s %s until %d", l.values[0], token, l.ends)
		}
		var list []string
		readers := mortal(key("readers", name))
		for i := 0; i < len(readers.values); i += 2 {
			if ends, _ := strconv.ParseInt(readers.values[i+1], 10, 64); ends > now {
				list = append(list, fmt.Sprintf("%s until %d", readers.values[i], ends))
			}
		}
		if sort.Strings(list); list != nil {
			found["readers "+name] = strings.Join(list, ", ")
		}
		place := strconv.FormatUint(fenceOffset(name), 10)
		last := strconv.FormatUint(fenceOffset(name)+15, 10)
		text, err := p.command("GETRANGE", "quorumlock:fences", place, last).ToString()
		require.NoError(p, err)
		if token, err := strconv.ParseUint(text, 10, 64); err == nil {
			found["fence "+name] = strconv.FormatUint(token, 10)
		}
	}
	for _, name := range append([]string{p.pool}, p.names...) {
		p.queueOnServer(found, name, mortal(key("queue", name)), mortal(key("waiting", name)), mortal(key("writers", name)))
	}
	if s, ok := stored[p.pool]; ok {
		size, _ := s.field("size")
		version, _ := s.field("version")
		found["size "+p.pool] = size + " of " + version
	}
	if m, ok := stored["quorumlock:node"]; ok {
		var texts []string
		for _, field := range []string{"identity", "until", "max_ttl", "max_skew", "restarted"} {
			text, _ := m.field(field)
			texts = append(texts, text)
		}
		until, _ := strconv.ParseInt(texts[1], 10, 64)
		ttl, _ := strconv.ParseInt(texts[2], 10, 64)
		skew, _ := strconv.ParseInt(texts[3], 10, 64)
		restarted, _ := strconv.Atoi(texts[4])
		found["marker"] = fmt.Sprint(texts[0], until, ttl, skew, restarted)
	}
	for _, known := range []string{p.pool, "quorumlock:node", "quorumlock:fences", "test:ends", "test:sent"} {
		delete(stored, known)
	}
	for name := range stored {
		p.check(strings.HasPrefix(name, "quorumlock:tombstone:"), "unexpected key %q", name)
		found["tombstone "+name] = strconv.FormatInt(mortal(name).ends, 10)
	}
	return found
}

func (p *mirror) queueOnServer(found map[string]string, name string, queue, waiting, writers storedKey) {
	var list []string
	_, indexed := waiting.field("+")
	for i := 0; i < len(queue.values); i += 2 {
		id := queue.values[i]
		deadline, ok := waiting.field(id)
		p.check(ok, "waiter %q of %q has no deadline", id, name)
		due, ok := waiting.field("")
		p.check(ok, "no deadline of all waiters of %q", name)
		p.check(number(due) <= number(deadline), "deadline of %q: %s is before %s", id, deadline, due)
		p.check(queue.ends >= number(deadline)-p.keep.Milliseconds()/32, "the queue of %q ends before its waiter %q", name, id)
		p.check(waiting.ends >= number(deadline)-p.keep.Milliseconds()/32, "the hash of %q ends before its waiter %q", name, id)
		if number(deadline) <= p.now() {
			continue // the next operation removes it
		}
		if indexed && !reads(id) {
			score, ok := writers.field(id)
			p.check(ok && score == queue.values[i+1], "index of %q: %q has %s instead of %s", name, id, score, queue.values[i+1])
			p.check(writers.ends >= number(deadline)-p.keep.Milliseconds()/32, "the index of %q ends before its waiter %q", name, id)
		}
		if reads(id) {
			p.check(indexed, "a reader without an index in the queue of %q", name)
		}
		since, _ := waiting.field("+" + id)
		list = append(list, fmt.Sprintf("%s at %s until %s since %s", id, queue.values[i+1], deadline, since))
	}
	for i := 0; i < len(waiting.values); i += 2 {
		id := waiting.values[i]
		if id == "" || id == "-" || id == "+" {
			continue
		}
		_, entered := queue.field(strings.TrimPrefix(id, "+"))
		p.check(entered || name == p.pool, "field %q of %q has no entry", id, name)
	}
	if list != nil {
		found["queue "+name] = strings.Join(list, "\n  ")
	}
}

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
func (p *mirror) operation() Op {
	op := Op{
		Kind:  anyOf(p, Acquire, Acquire, Acquire, Acquire, Renew, Release, Release, Release, Leave, ForceRelease, Inspect, Shorten),
		Names: p.someNames(), TTL: anyOf(p, 5*time.Second, 30*time.Second, 200*time.Millisecond, p.limits.MaxTTL),
		Token: p.token(), Limits: p.limits, Fair: p.IntN(4) > 0,
	}
	id := anyOf(p, "c:1@80", "c:2", "d:3@500", "d:4@60", "e:5")
	if p.IntN(50) == 0 {
		op.TTL = p.limits.MaxTTL + time.Millisecond
	}
	op.Reads = p.IntN(3) == 0 && op.Kind <= Release
	if op.Reads {
		id = anyOf(p, "c:6@80r", "c:7@r", "d:8@90r", "e:9@r")
		op.Floor = anyOf(p, 0, 0, 0, p.token())
	}
	op.Owner = ownerOf(id)
	if op.Reads && p.IntN(4) == 0 {
		op.Owner = "c:o1@80" // a writer becomes a reader
	}
	switch {
	case op.Kind == Acquire && !op.Reads && p.IntN(6) == 0:
		op.Reserve = uint64(p.IntN(5000))
	case op.Kind == ForceRelease:
		op.Owner = anyOf(p, "", "", "c:o1@80", "c:o6@80r")
		op.Buried = anyOf(p, nil, []string{"c:o2", "c:o7@r"})
	}
	op.Announce = (op.Kind == Release || op.Kind == Shorten || op.Kind == ForceRelease) && p.IntN(8) == 0
	waits := op.Kind == Acquire && p.IntN(5) > 0 || op.Kind == Release && p.IntN(2) == 0 || op.Kind == Leave ||
		op.Kind == Renew && op.Reads && !reads(op.Owner)
	if waits {
		op.Waiter.ID = id
		if op.Kind == Renew {
			op.Waiter.ID = strings.Replace(op.Owner, ":o", ":", 1)
		}
	}
	if waits && (op.Kind == Acquire || op.Kind == Release && p.IntN(3) == 0) {
		op.Waiter.Ticket, op.Waiter.Keep = p.now()*1000+int64(p.IntN(9))*100_000, anyOf(p, p.keep, p.keep, p.keep/4)
	}
	return op
}

// ofSlots draws an operation on slots.
func (p *mirror) ofSlots() Op {
	op := Op{
		Kind: anyOf(p, Acquire, Acquire, Acquire, Release, Release, Leave, Resize, Renew), TTL: anyOf(p, 5*time.Second, 30*time.Second, 200*time.Millisecond),
		Token: p.token(), Limits: p.limits, Fair: p.IntN(4) > 0, Pool: Pool{Name: p.pool, Size: 3},
	}
	if p.IntN(4) == 0 || op.Kind == Resize {
		op.Pool.Size, op.Pool.Version = 1+p.IntN(5), uint64(p.IntN(4))
	}
	id := anyOf(p, "c:1@80", "c:2*2@60", "d:3@500", "d:4*2", "e:5")
	op.Owner = ownerOf(id)
	slots := slices.Clone(p.slots[:4])
	p.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	op.Names = slots[:wanted(id)]
	switch op.Kind {
	case Leave, Resize:
		op.Names = []string{p.pool}
	case Release:
		op.Names = slots
	case Renew:
		op.Pool = Pool{}
	}
	if op.Kind == Leave || op.Kind == Acquire && p.IntN(5) > 0 || op.Kind == Release && p.IntN(2) == 0 {
		op.Waiter.ID = id
	}
	if op.Waiter.ID != "" && (op.Kind == Acquire || op.Kind == Release && p.IntN(3) == 0) {
		op.Waiter.Ticket, op.Waiter.Keep = p.now()*1000+int64(p.IntN(9))*100_000, p.keep
	}
	return op
}

// step changes something at random.
func (p *mirror) step(op func() Op) {
	switch p.IntN(40) {
	case 0:
		p.pass(anyOf(p, 5*time.Second, 11*time.Second, time.Minute))
	case 1, 2, 3, 4, 5, 6, 7, 8:
		p.pass(anyOf[time.Duration](p, 1, 10, 30, 50, 60, 100, 250, 500, 2000) * time.Millisecond)
	case 9:
		client := anyOf(p, "c", "d", "e")
		p.history = append(p.history, "inbox of "+client)
		if p.live[client] != nil {
			p.unsubscribe(client)
		} else {
			p.subscribe(client)
		}
	case 10:
		if p.IntN(5) == 0 {
			p.disturb()
		}
	case 11, 12:
		ops := []Op{op(), op(), op()}
		for i := range ops {
			ops[i].TTL = ops[0].TTL
			if p.IntN(2) == 0 && ops[i].Kind != Leave {
				ops[i].Waiter = Waiter{}
			}
		}
		p.run(ops...)
	default:
		p.run(op())
	}
}

// disturb makes both nodes lose their memory, or their identity.
func (p *mirror) disturb() {
	if p.IntN(2) == 0 {
		p.history = append(p.history, "flush")
		p.memory.Flush()
		p.command("FLUSHDB")
		p.engine.Do("FLUSHALL")
	} else {
		p.history = append(p.history, "restart")
		p.identify()
	}
	if p.IntN(6) > 0 {
		p.open()
	}
}

// TestMirror: after any history, a server and the in-memory node give the same answers, send the same messages, and
// know the same.
func TestMirror(t *testing.T) {
	t.Parallel()
	p := newMirror(t)
	for seed := range uint64(24) {
		p.begin(seed)
		for range 120 {
			p.step(p.operation)
		}
	}
	p.hasSeen("woken", "standby", "returned", "acquire granted", "acquire denied", "acquire unknown", "renew granted", "renew healed",
		"renew denied", "release released", "release absent", "force-release released", "inspect inspected",
		"forced")
}

// TestMirrorOfPools is TestMirror for slots of a pool.
func TestMirrorOfPools(t *testing.T) {
	t.Parallel()
	p := newMirror(t)
	for seed := range uint64(16) {
		p.begin(seed)
		for range 120 {
			p.step(p.ofSlots)
		}
	}
	p.hasSeen("woken", "standby", "returned", "acquire granted", "acquire denied", "release released", "resize granted", "resize denied")
}

// hasSeen requires that the histories had each of these answers and messages.
func (p *mirror) hasSeen(all ...string) {
	for _, what := range all {
		assert.Positive(p, p.seen[what], what)
	}
}
