package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// lab is a server that runs scripts at a given time. Tests on a running clock cannot reach the
// bounds to the microsecond.
type lab struct {
	*testing.T
	server *redisproc.Server
	limits wire.Limits
	now    int64
	// info is Lua code that replaces the answer to INFO. In it, text stands for the real answer.
	info string
	// place is where INFO has the identity.
	place int
	// together selects the script for batches.
	together bool
}

func newLab(t *testing.T) *lab {
	l := &lab{
		T: t, server: redisproc.Start(t),
		now:    time.Now().Add(time.Minute).UnixMicro(), // so that no key is gone meanwhile
		limits: wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute},
	}
	l.mark(0)
	l.place = placeOf(l.command("INFO", "replication"))
	require.NotZero(t, l.place)
	return l
}

// mark writes a marker with the server's identity, and a recovery that ends at an instant; 0 if the server was opened.
func (l *lab) mark(until int64) {
	l.Helper()
	if until != 0 {
		until -= l.limits.Recovery().Microseconds()
	}
	l.command("HSET", "quorumlock:node", "identity", l.server.ReplicationID(), "since", strconv.FormatInt(until, 10), "restarted", "0", "open", "")
}

func (l *lab) command(args ...string) string {
	l.Helper()
	text, err := l.server.Command(args...)
	require.NoError(l, err, "%v", args)
	return text
}

// fence returns the text at the place of a name's fence.
func (l *lab) fence(name string) string {
	l.Helper()
	at := fenceOffset(name)
	return l.command("GETRANGE", "quorumlock:fences", strconv.FormatUint(at, 10), strconv.FormatUint(at+fenceWidth-1, 10))
}

// run runs the script of an operation while the server's clock is frozen.
func (l *lab) run(op wire.Op, at int64) string {
	l.Helper()
	frozen := fmt.Sprintf(`
		local real = redis
		local redis = {pcall = real.pcall, call = function(verb, ...)
			if verb == 'TIME' then return {'%d', '%d'} end
			local text = real.call(verb, ...)
			if verb == 'INFO' then return %s end
			return text
		end}
	`, at/1e6, at%1e6, cmp.Or(l.info, "text"))
	w := writer{place: l.place}
	op.Limits = l.limits
	if l.together && op.Kind <= wire.Release {
		for _, queues := range []bool{false, true} {
			w.keys, w.args = nil, []string{w.packed([]wire.Op{op})}
			w.keysOfMany([]wire.Op{op}, queues)
			told := l.command(append(append([]string{"EVAL", frozen + w.form(formOfMany(&op, queues)).source, strconv.Itoa(len(w.keys))}, w.keys...), w.args...)...)
			if told = strings.TrimSuffix(strings.TrimSuffix(told, noQueues), "\n"); told != "KEYS" {
				return told
			}
		}
		w.whole = true
	}
	run := func(source string) string {
		return l.command(slices.Concat([]string{"EVAL", frozen + source, strconv.Itoa(len(w.keys))}, w.keys, w.args)...)
	}
	told := run(w.call([]wire.Op{op}).source)
	if told == "KEYS" {
		w.whole = true
		told = run(w.call([]wire.Op{op}).source)
	}
	return told
}

// near returns numbers at, just below and just above the bounds.
func near(bounds ...int64) []int64 {
	var all []int64
	for _, b := range bounds {
		all = append(all, b-1000, b-1, b, b+1, b+1000)
	}
	return all
}

// The scripts accept the tokens that the rule allows, to the microsecond. The fast path compares whole seconds, and accepts no
// token that the comparison in microseconds refuses. Without FIFO order, there is another way.
func TestScriptTakesTokens(t *testing.T) {
	l := newLab(t)
	us := time.Duration.Microseconds
	for _, l.limits = range []wire.Limits{
		{MaxTTL: 10 * time.Second, MaxClockSkew: time.Second},
		{MaxTTL: 3999 * time.Millisecond, MaxClockSkew: 1999 * time.Millisecond},
		{MaxTTL: 2 * time.Second, MaxClockSkew: 999 * time.Millisecond},
		{MaxTTL: 999 * time.Millisecond, MaxClockSkew: time.Millisecond},
	} {
		l.mark(0)
		for _, fraction := range []int64{0, 1, 500_000, 999_999} {
			now := l.now/1e6*1e6 + fraction
			bounds := []int64{now, now - us(l.limits.MaxTTL), now + us(l.limits.MaxClockSkew), now - us(l.limits.Recovery())}
			for _, b := range bounds[:4:4] {
				bounds = append(bounds, b/1e6*1e6, b/1e6*1e6+1e6)
			}
			for _, token := range near(bounds...) {
				for _, l.together = range []bool{false, true} {
					for i, reserve := range []uint64{0, 700_000, 0, uint64(us(l.limits.Recovery())), math.MaxUint64} {
						op := wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Millisecond, Token: uint64(token), Reserve: reserve, Fair: i < 2}
						want := "1"
						if isImplausible(op.Token, op.End(), now, l.limits) {
							want = fmt.Sprintf("CLOCK\n%d", now)
						}
						assert.Equal(t, want, l.run(op, now), "%d+%d at %d under %v, together %v", token-now, reserve, fraction, l.limits, l.together)
						if want == "1" {
							assert.Equal(t, strconv.FormatUint(op.Token+reserve, 10), l.fence("a"))
						} else {
							assert.Equal(t, []string{"quorumlock:node"}, l.server.Keys())
						}
						l.command("DEL", "a", "quorumlock:fences")
					}
				}
			}
		}
	}
}

// The script notes that the node is open. The note counts for this server only, and for no longer recovery.
func TestScriptNotesThatANodeIsOpen(t *testing.T) {
	l := newLab(t)
	acquire := wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Minute, Token: uint64(l.now), Fair: true}
	renew := wire.Op{Kind: wire.Renew, Names: []string{"b"}, Owner: "o1", TTL: time.Minute, Token: uint64(l.now)}
	take := func() string {
		l.command("DEL", "a", "quorumlock:fences")
		return l.run(acquire, l.now)
	}
	noted := func() string { return l.command("HGET", "quorumlock:node", "open") }
	is := "master_replid:" + l.server.ReplicationID() + " 3660000"
	shifted := `'# Replication\r\nmaster_replid2:' .. string.rep('0', 40) .. '\r\n' .. text`
	other := `string.gsub(string.gsub(text, 'master_replid2:%x+', ''), 'master_replid:(%x+)', 'master_replid:` + strings.Repeat("0", 40) + `\r\nmaster_replid2:%1') .. ''`
	for _, l.together = range []bool{false, true} {
		for _, l.info = range []string{"", shifted} {
			l.mark(0)
			assert.Empty(t, noted())
			for range 2 {
				assert.Equal(t, "1", take())
				assert.Equal(t, is, noted())
			}
		}
		l.info = ""
		for name, change := range map[string]func(){
			"another server":       func() { l.info = other },
			"a marker of another":  func() { l.command("HSET", "quorumlock:node", "identity", "x", "open", "master_replid:x 3660000") },
			"no marker":            func() { l.command("DEL", "quorumlock:node") },
			"a recovery by a mark": func() { l.command("HDEL", "quorumlock:node", "since"); l.run(wire.Op{Kind: wire.Mark}, l.now) },
		} {
			l.mark(0)
			take()
			change()
			assert.Contains(t, take(), "RECOVERING", "%s, together %v", name, l.together)
			assert.Contains(t, l.run(renew, l.now), "\n3660000\n", "%s, together %v", name, l.together)
			assert.Empty(t, noted(), name)
			l.info = ""
		}

		usual := l.limits
		l.mark(l.now)
		take()
		l.limits = wire.Limits{MaxTTL: 2 * time.Hour, MaxClockSkew: time.Second}
		assert.Contains(t, take(), "RECOVERING")
		assert.Contains(t, l.run(renew, l.now), "\n3541000\n")
		assert.Equal(t, is, noted(), "the node is open only to clients with the shorter recovery")
		l.mark(0)
		take()
		assert.Equal(t, strings.Replace(is, "3660000", "7201000", 1), noted())
		l.limits = usual
		take()
		assert.Equal(t, strings.Replace(is, "3660000", "7201000", 1), noted(), "what is open for long is open for short")
	}
}

func TestScriptRenewsFences(t *testing.T) {
	l := newLab(t)
	us := time.Duration.Microseconds
	for _, token := range near(l.now, l.now-us(l.limits.MaxTTL), l.now-us(l.limits.Recovery()), l.now+us(l.limits.MaxClockSkew)) {
		token := uint64(token)
		op := wire.Op{Kind: wire.Renew, Names: []string{"a"}, Owner: "o1", TTL: time.Minute, Token: token}
		assert.Equal(t, "2", l.run(op, l.now))
		if mayFence(token, l.now, l.limits) {
			assert.Equal(t, strconv.FormatUint(token, 10), l.fence("a"), "%d", int64(token)-l.now)
		} else {
			assert.Empty(t, l.fence("a"), "%d", int64(token)-l.now)
		}
		l.command("DEL", "a", "quorumlock:fences")
	}
}

// The fast path of a renewal accepts a fence only if it is correct.
func TestFastPathOfRenewalChecksTheFence(t *testing.T) {
	l := newLab(t)
	const key, year = "quorumlock:fences", 365 * 24 * time.Hour
	l.now = l.now/1e6*1e6 + 500_000
	op := wire.Op{Kind: wire.Renew, Names: []string{"a"}, Owner: "o1", TTL: time.Minute}
	for _, l.together = range []bool{false, true} {
		// A token that is a recovery old or older needs no fence. The script does not look at the
		// fences.
		l.mark(0)
		l.command("HSET", "a", "o1", "1")
		l.command("RPUSH", key, "a list")
		for _, past := range []int64{0, 1, 499_999, 500_001, 1_500_000} {
			op.Token = uint64(l.now - l.limits.Recovery().Microseconds() - past)
			assert.Equal(t, "1", l.run(op, l.now), "%d us past, together %v", past, l.together)
		}
		l.command("DEL", key)

		// A recovery may reach back before the start of time. Every token must still get a fence.
		usual := l.limits
		for years := 40; years <= 120; years += 10 {
			l.limits = wire.Limits{MaxTTL: time.Duration(years) * year, MaxClockSkew: time.Minute}
			l.mark(0)
			op.Token = uint64(l.now)
			for range 2 { // the first finds out that the node is open
				l.command("DEL", key)
				assert.Equal(t, "1", l.run(op, l.now))
				assert.Equal(t, strconv.FormatInt(l.now, 10), l.fence("a"), "%d years, together %v", years, l.together)
			}
		}
		l.limits = usual
		l.command("DEL", "a", key)
	}
}

// A fence has its place in one text, between other fences, and never expires.
func TestScriptKeepsFences(t *testing.T) {
	l := newLab(t)
	const reserve = 10_000_000
	want := make(map[string]string)
	for i, name := range []string{"a", "b", "c", "{a}", "job", "aak", "a", "phr"} {
		for _, l.together = range []bool{false, true} {
			token := uint64(l.now) + uint64(2*i)
			if l.together {
				token++
			}
			op := wire.Op{Kind: wire.Acquire, Names: []string{name}, Owner: "o1", TTL: time.Minute, Token: token - reserve, Reserve: reserve, Fair: true}
			if i >= 5 || l.together { // the node knows a token of this place
				op.Token, op.Reserve = token, 0
			}
			assert.Equal(t, "1", l.run(op, l.now))
			want[name] = strconv.FormatUint(token, 10)
			l.command("DEL", name)
		}
	}
	want["aak"] = want["phr"]
	for name, token := range want {
		assert.Equal(t, token, l.fence(name), name)
	}
	assert.Equal(t, "-1", l.command("PTTL", "quorumlock:fences"))
	assert.ElementsMatch(t, []string{"quorumlock:node", "quorumlock:fences"}, l.server.Keys())
	assert.LessOrEqual(t, len(l.command("GET", "quorumlock:fences")), fencePlaces*fenceWidth)
}

// A token with more digits than a place has would reach into the next one. Clocks get there in 2286.
func TestScriptTakesNoTokenThatIsTooLong(t *testing.T) {
	l := newLab(t)
	at := int64(1e16)
	for _, l.together = range []bool{false, true} {
		for _, reserve := range []uint64{0, 1} {
			op := wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Minute, Token: 1e16 - reserve, Reserve: reserve, Fair: true}
			for range 2 { // the first finds out that the node is open
				assert.Equal(t, fmt.Sprintf("CLOCK\n%d", at), l.run(op, at), "%d", reserve)
			}
			op.Kind, op.Token, op.Reserve = wire.Renew, 1e16, 0
			assert.Equal(t, "2", l.run(op, at))
			assert.Equal(t, "1", l.run(op, at))
			assert.Empty(t, l.fence("a"))
			l.command("DEL", "a")
		}
	}
}

// A recovery ends at its last microsecond. The node reports it in milliseconds, rounded up.
func TestScriptEndsRecoveries(t *testing.T) {
	l := newLab(t)
	for left, told := range map[int64]string{1: "1", 999: "1", 1000: "1", 1001: "2", 7_000_000: "7000"} {
		l.mark(l.now + left)
		acquire := wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Minute, Token: uint64(l.now)}
		assert.Equal(t, "RECOVERING\n"+told+"\n0", l.run(acquire, l.now))
		renew := acquire
		renew.Kind = wire.Renew
		assert.Equal(t, "2\n"+told+"\n0", l.run(renew, l.now))
		assert.Equal(t, "1\n"+told+"\n0", l.run(renew, l.now))
		assert.Equal(t, told, strings.Split(l.run(wire.Op{Kind: wire.Inspect, Names: []string{"a"}}, l.now), "\n")[0])
		state := []string{l.server.ReplicationID(), strconv.FormatInt(l.now+left-l.limits.Recovery().Microseconds(), 10), told, "0"}
		assert.Equal(t, strings.Join(state, "\n"), l.run(wire.Op{Kind: wire.Mark}, l.now))
		l.command("DEL", "a", "quorumlock:fences")

		for _, over := range []int64{0, 1, 10_000_000} {
			at := l.now + left + over
			assert.Equal(t, "1", l.run(acquire, at), "over since %d", over)
			assert.Equal(t, "1", l.run(renew, at))
			assert.Equal(t, "0", strings.Split(l.run(wire.Op{Kind: wire.Inspect, Names: []string{"a"}}, at), "\n")[0])
			state[2] = "0"
			assert.Equal(t, strings.Join(state, "\n"), l.run(wire.Op{Kind: wire.Mark}, at))
			l.command("DEL", "a", "quorumlock:fences")
		}
	}
}

// A recovery begins when the node first sees its loss.
func TestScriptBeginsRecoveries(t *testing.T) {
	l := newLab(t)
	for _, kind := range []wire.Kind{wire.Acquire, wire.Renew, wire.Mark} {
		l.command("DEL", "quorumlock:node", "a")
		l.run(wire.Op{Kind: kind, Names: []string{"a"}[:min(1, int(wire.Mark-kind))], Owner: "o1", TTL: time.Minute, Token: uint64(l.now)}, l.now)
		assert.Equal(t, strconv.FormatInt(l.now, 10), l.command("HGET", "quorumlock:node", "since"))
	}
}

// The identity is where scripts look first, on each product. With replicas, that place moves.
func TestPlaceOfTheIdentity(t *testing.T) {
	for _, name := range []string{"", redisproc.Oldest, redisproc.NewestRedis, redisproc.NewestValkey} {
		t.Run(name, func(t *testing.T) {
			var opts []redisproc.Option
			if name != "" {
				opts = append(opts, redisproc.WithProgram(redisproc.Fetched(t, name)))
			}
			server := redisproc.Start(t, opts...)
			n := costNode(t, server, wire.Limits{MaxTTL: time.Hour, MaxClockSkew: time.Minute})
			info, err := server.Command("INFO", "replication")
			require.NoError(t, err)
			place := n.link.writer.place
			require.Equal(t, identityField+server.ReplicationID(), info[place-1:place-1+identityLength])
			assert.Equal(t, place, placeOf("# Server\r\nx:y\r\n"+info))
			assert.Zero(t, placeOf(strings.Replace(info, "connected_slaves:0", "connected_slaves:1", 1)))
			assert.Zero(t, placeOf(""))
		})
	}
}
