package redislua

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// host is a clock that stands still until a test moves it.
type host struct{ micros int64 }

func (h *host) Micros() int64              { return h.micros }
func (h *host) Replication() string        { return "" }
func (h *host) Publish(string, string) int { return 0 }

func newHost() *host { return &host{micros: 1_700_000_000_000_000} }

// reference is a real server.
type reference struct{ rueidis.Client }

func newReference(t *testing.T) reference {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{redisproc.Start(t).Addr()}, DisableCache: true, ForceSingleClient: true, AlwaysRESP2: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return reference{client}
}

func (r reference) do(args ...string) string {
	m, _ := r.Do(context.Background(), r.B().Arbitrary(args...).Build()).ToMessage()
	return messageText(m)
}

func messageText(m rueidis.RedisMessage) string {
	switch err := m.Error(); {
	case m.IsNil():
		return "nil"
	case err != nil:
		return errorText(err.Error())
	case m.IsInt64():
		n, _ := m.AsInt64()
		return strconv.FormatInt(n, 10)
	case m.IsArray():
		items, _ := m.ToArray()
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = messageText(item)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		text, _ := m.ToString()
		return strconv.Quote(text)
	}
}

func replyText(v Value) string {
	switch v.Kind {
	case Integer:
		return strconv.FormatInt(v.Int, 10)
	case Bulk, Status:
		return strconv.Quote(v.Text)
	case Error:
		return errorText(v.Text)
	case Array:
		texts := make([]string, len(v.Items))
		for i, item := range v.Items {
			texts[i] = replyText(item)
		}
		return "{" + strings.Join(texts, ", ") + "}"
	default:
		return "nil"
	}
}

// errorText returns the code of an error. Nothing depends on the rest, which tells lines of scripts.
func errorText(text string) string {
	code, _, _ := strings.Cut(text, " ")
	if code == "ERR" || strings.ToUpper(code) != code {
		code = ""
	}
	return "error " + code
}

// TestScripts: a script gives what it gives on a server.
func TestScripts(t *testing.T) {
	server, own := newReference(t), New(newHost())
	for _, script := range []string{
		// Where gopher-lua differs from C.
		"local x, y = true, true; x = x and not y and (ARGV[1] == '1' or #ARGV > 0); return tostring(x)",
		"local n = 0; local function f() n = n + 1; error('x', 0) end; while n < 3 do pcall(f) end; return n",
		"return tostring(tonumber('1700000000123456'))",
		"return 1700000000123456 .. ''",
		"return 99999999999999 .. ' ' .. 100000000000000 .. ' ' .. -1e14 .. ' ' .. 0.1 .. ' ' .. 2 ^ 53 .. ' ' .. 1e300",
		"local t = {}; t[0], t[1] = 'a', 'b'; return {unpack(t, 0, 1)}",
		"return {type(string.match('a', 'b')), tostring(tonumber(string.match('a', 'b')))}",
		"return tostring(tonumber('18446744073709551615') > 2 ^ 53)",
		// Values and operators.
		"return {1, 'a', true, false, 2.9, -2.9, nil, 3}",
		"return {1, {2, {3}}, {}}",
		"return false", "return nil", "return true", "return {err = 'MY error'}", "return {ok = 'fine'}", "return 3.99",
		"return {10 / 4 * 10, 7 % 3, -7 % 3, 7 % -3, 2 ^ 10, -2 ^ 2, 1 + 2 * 3, '10' + 5, '0x10' == 16 and 1 or 0}",
		"return {1 < 2, 'a' < 'b', 'a' < 'B', '10' < '9', 1 == '1', 2 >= 2, 'a' ~= 'a'}",
		"return {#'abc', #{1, 2, 3}, #{}, #ARGV}",
		"return {1 and 2, false or 3, tostring(nil and 1), not nil, not 0}",
		"return 'a' .. 1 .. 2.5 .. 'b'",
		"return {tostring(nil), tostring(true), tostring(false), tostring(1e15), tostring(-0.5), tostring(1/0), tostring(-1/0)}",
		"return {tonumber('12'), tonumber(' 12 '), tonumber('12x') or 'no', tonumber('') or 'no', tonumber('1e3'), tonumber(nil) or 'no'}",
		// Variables and functions.
		"local a, b, c = 1, 2; return {a, b, tostring(c)}",
		"local a, b = 1, 2; a, b = b, a; return {a, b}",
		"local t = {}; local i = 1; i, t[i] = 2, 'x'; return {i, t[1], tostring(t[2])}",
		"local fs = {}; for i = 1, 3 do local j = i * 10; fs[i] = function() j = j + 1; return j end end; return {fs[1](), fs[1](), fs[2](), fs[3]()}",
		"local function f(...) return select('#', ...), ... end; return {f(1, nil, 3)}",
		"local function f(...) local a, b = ...; return b end; return {f('a', 'b', 'c')}",
		"local function f() return 1, 2, 3 end; return {f(), f()}",
		"local function f() return 1, 2, 3 end; return {(f()), 9}",
		"local function f() return 'a', 'b' end; return 'x' .. f()",
		"local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end; return fib(15)",
		"local s = {n = 1}; function s.up(by) s.n = s.n + by; return s.n end; s.up(2); return s.n",
		"local function outer() local n = 0; local function inner() n = n + 1; return function() n = n + 10; return n end end; return inner() end; return outer()()",
		"local function f(a, b) return tostring(a) .. tostring(b) end; return f(1)",
		// Statements.
		"local n = 0; for i = 10, 1, -3 do n = n * 10 + i end; return n",
		"local n = 0; for i = 1, 0 do n = 1 end; return n",
		"local n = 0; while true do n = n + 1; if n == 5 then return n end end",
		"local n = 0; repeat local done = n > 3; n = n + 1 until done; return n",
		"local out = {}; for i, v in ipairs({'a', 'b', nil, 'c'}) do out[#out + 1] = i .. v end; return out",
		"for i = 1, 3 do for j = 1, 3 do if j == 2 then return {i, j} end end end",
		"if ARGV[1] == 'none' then return 1 elseif ARGV[1] == '1' then return 2 else return 3 end",
		"local r = {}; for w in string.gmatch('a1b22c', '%d+') do r[#r + 1] = w end; return r",
		// The library.
		"return {string.sub('hello', 2, 3), string.sub('hello', -3), string.sub('hello', 2, -2), string.sub('hello', 0), string.sub('hello', 9)}",
		"return {string.find('hello', 'l'), string.find('hello', 'l', 1, true), string.find('a.b', '.', 1, true), tostring(string.find('a', 'b'))}",
		"return {string.find('abc', '(b)(c)')}",
		"return {string.match('c:12@80r', '@(%d+)r?$'), string.match('c:12', '^[^:]*'), string.match('x12y', '^%d+', 2), string.match('1700', '^(%d+)%+?$')}",
		"return {string.match('aXb_c', '^%w+[^%d]'), string.match('5', '^%+?%d$'), string.match('x5', '^%d$') or 'no'}",
		"return {string.match('a]b-c', '[]b]+'), string.match('a-c', '[a%-]+'), string.match('a.b$', '%.b%$$'), string.match('{a}{b}', '{[^}]+}$')}",
		"return {string.match('key = value', '((%w+) *= *(%w+))')}",
		"local r = {}; for a, b in string.gmatch('k=v, x=y', '(%w)=(%w)') do r[#r + 1] = a .. b end; for e in string.gmatch('ab', '%d*') do r[#r + 1] = '<' .. e .. '>' end; return r",
		"string.match('a', '(a')", "string.match('a', 'a)')", "string.match('a', '[a')", "string.match('a', '%')",
		"return {string.format('%.0f', 2 ^ 53), string.format('%.0f', -1), string.format('%.0f', '1700000000123456')}",
		"return {string.char(0, 65, 255), string.rep('ab', 3), string.rep('a', 0)}",
		"return {math.floor(-1.5), math.ceil(1.2), math.max(1, 5, 3), math.min('4', 2), math.floor('7')}",
		"return {table.concat({1, 'b', 3.5}, ','), table.concat({}), table.concat({'a', 'b', 'c'}, '-', 2, 3), table.concat({'a'}, ',', 2, 1)}",
		"local t = {3, 1, 2}; table.sort(t); return t",
		"local t = {'b', 'B', 'a'}; table.sort(t); return t",
		"return {unpack({1, 2, 3}, 2)}",
		"return {unpack({1, nil, 3}, 1, 3)}",
		"return {type(nil), type(1), type('a'), type({}), type(print), type(type)}",
		"local t = {1, 2, 3}; t[#t] = nil; t[#t + 1] = 'x'; return {#t, t[3]}",
		"local t = {}; t[2] = 'b'; t[1] = 'a'; t[3] = 'c'; return {#t, unpack(t)}",
		"local t = {a = 1, ['b c'] = 2, 'x', [5] = 'five', 'y'}; return {t.a, t['b c'], t[1], t[2], t[5]}",
		// Errors.
		"error({err = 'MINE it is'})", "error('text', 0)", "local x = nil; return x.y", "return 1 + {}", "return {} .. 'a'", "return 1 < 'a'", "return {} < {}",
		"nonexistent()", "return undeclared", "undeclared = 1", "return #nil", "local f = 5; f()",
		"local ok, e = pcall(error, 'x', 0); return {tostring(ok), e}",
		"local ok, e = pcall(function() return redis.call('HGET', 'absent') end); return {tostring(ok), type(e), e.err and 1 or 0}",
		"local r = redis.pcall('nonsense'); return r.err and 1 or 0",
		"return redis.error_reply('MY own')",
		"return redis.call('GET')", "return redis.call()", "return redis.call('HSET', 'h', {}, 1)", "return {pcall(redis.call, 'HSET')} [1]",
		"redis.call('SET', 's', 'x'); return redis.call('HGET', 's', 'f')",
		"redis.call('SET', 's', 'x'); local r = redis.pcall('ZADD', 's', 1, 'a'); return string.sub(r.err, 1, 9)",
		"redis.call('DEL', 's', 'h', 'z'); redis.call('HSET', 'h', 'n', 1700000000123456, 'f', 0.1, 'big', 2 ^ 60); return redis.call('HGETALL', 'h')",
		"redis.call('ZADD', 'z', 1700000000123456, 'a', '1.5', 'b', 3, 'c'); return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')",
		"return {redis.call('HGET', 'h', 'none') == false and 1 or 0, redis.call('ZSCORE', 'z', 'none') == false and 1 or 0, type(redis.call('TYPE', 'z')), redis.call('TYPE', 'z').ok}",
		"return cmsgpack.unpack('\\147\\161a\\217\\003bcd\\160')",
	} {
		args := []string{"EVAL", script, "6", "k1", "k2", "absent", "h", "s", "z", "1", "two"}
		assert.Equal(t, server.do(args...), replyText(own.Do(args...)), script)
	}
}

// TestCommands: any sequence of commands gives the replies that it gives on a server.
func TestCommands(t *testing.T) {
	server := newReference(t)
	for seed := range uint64(20) {
		server.do("FLUSHALL")
		own, r := New(newHost()), rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // any numbers will do
		any := func(of ...string) string { return of[r.IntN(len(of))] }
		element := func() string { return any("a", "b", "c", "d", "", "\x00\xff") }
		score := func() string { return any("0", "1", "-1", "2", "5", "-3", "1.5", "1700000000123456", "inf", "1e3") }
		index := func() string { return any("0", "1", "-1", "2", "5", "-3") }
		var history []string
		for range 300 {
			key := any("h1", "h2", "z1", "z2", "s1", "s2")
			kind := key[:1]
			if r.IntN(12) == 0 {
				kind = any("h", "z", "s")
			}
			var args []string
			switch n := r.IntN(6); {
			case r.IntN(10) == 0:
				args = []string{any("DEL", "EXISTS", "TYPE", "PTTL"), key}
			case r.IntN(30) == 0:
				args = []string{"PEXPIRE", key, any("0", "-5")}
			case kind == "h":
				args = [][]string{
					{"HSET", key, element(), score()},
					{"HSET", key, element(), score(), element(), score()},
					{"HGET", key, element()},
					{"HMGET", key, element(), element()},
					{"HDEL", key, element(), element()},
					{any("HKEYS", "HGETALL"), key},
				}[n]
			case kind == "z":
				args = [][]string{
					{"ZADD", key, score(), element()},
					{"ZADD", key, any("NX", "GT", "LT", "XX"), score(), element(), score(), element()},
					{"ZREM", key, element(), element()},
					{any("ZRANK", "ZSCORE"), key, element()},
					{"ZRANGE", key, index(), index(), any("WITHSCORES", "BYSCORE")},
					{"ZRANGE", key, any("-inf", "(1", "0"), any("+inf", "(5", "3"), "BYSCORE", "LIMIT", any("0", "1"), any("1", "2", "-1")},
				}[n]
			default:
				args = [][]string{
					{"SET", key, element()},
					{"SETRANGE", key, any("0", "1", "5"), any("a", "b", "\x00\xff")},
					{"GETRANGE", key, index(), index()},
					{"GETRANGE", key, "0", "-1"},
					{"SETRANGE", key, any("0", "3"), "xyz"},
					{"SET", key, "long text"},
				}[n]
			}
			history = append(history, fmt.Sprintf("%q", args))
			if want, got := server.do(args...), replyText(own.Do(args...)); want != got {
				t.Fatalf("seed %d: %s on the server, %s here, after\n%s", seed, want, got, strings.Join(history[max(0, len(history)-20):], "\n"))
			}
		}
	}
}

func TestKeysEndAfterTheirLastMillisecond(t *testing.T) {
	h := newHost()
	s := New(h)
	s.Do("SET", "a", "x", "PX", "100")
	h.micros += 100 * time.Millisecond.Microseconds()
	assert.Equal(t, Value{Kind: Integer}, s.Do("PTTL", "a"))
	h.micros += time.Millisecond.Microseconds()
	assert.Equal(t, integer(-2), s.Do("PTTL", "a"))
}

func TestAFullServerRefusesTheFirstWriteOfAScript(t *testing.T) {
	s := New(newHost())
	s.Do("SET", "a", "x")
	s.Full = true
	assert.Equal(t, errMemory, s.Do("SET", "b", "x").Text)
	assert.True(t, strings.HasPrefix(s.Do("EVAL", "return redis.call('HSET', 'h', 'f', 1)", "1", "h").Text, "OOM "))
	assert.Equal(t, integer(1), s.Do("EVAL", "redis.call('PEXPIRE', 'a', 1000); return redis.call('HSET', 'h', 'f', 1)", "2", "h", "a"))
}

func TestARestartForgetsScripts(t *testing.T) {
	s := New(newHost())
	s.Do("SET", "a", "x")
	saved := s.Snapshot()
	s.Do("SET", "b", "x")
	s.Do("EVAL", "return 1", "0")
	const digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	assert.Equal(t, integer(1), s.Do("EVALSHA", digest, "0"))
	s.Restore(saved)
	assert.Equal(t, errNoScript, s.Do("EVALSHA", digest, "0").Text)
	assert.True(t, slices.EqualFunc(s.Do("KEYS", "*").Items, []string{"a"}, func(v Value, key string) bool { return v.Text == key }))
}

// A script may use the keys that it has declared, and no others, also where it ignores errors.
func TestUndeclaredKeysAreRefused(t *testing.T) {
	for script, refused := range map[string]bool{
		"redis.call('HGET', KEYS[1], 'f'); redis.call('EXISTS', 'a', KEYS[2]); redis.call('TIME')": false,
		"redis.pcall('HGET', 'c', 'f')":                        true,
		"redis.call('EXISTS', 'a', 'c')":                       true,
		"pcall(redis.call, 'DEL', KEYS[1], 'c')":               true,
		"redis.call('ZADD', KEYS[1] .. KEYS[2], 'XX', 1, 'm')": true,
	} {
		run := func() { New(newHost()).Do("EVAL", script, "2", "a", "b") }
		if refused {
			assert.Panics(t, run, script)
		} else {
			assert.NotPanics(t, run, script)
		}
	}
}
