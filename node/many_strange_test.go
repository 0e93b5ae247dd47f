package node_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// strangeNames are unusual names. Some are alike. None is a key of another name: no batch takes such a name, so an operation on it
// may run before one on the other name that runs again.
var strangeNames = []string{"", "a", "{a}", ":{a}", "a{a", "a}", "{}", "a{}b{c}", "{}}", "\x00\r\n\xff", "aaa", "ncw", "1e3", strings.Repeat("n", 5000)}

// strangeOwners are owners, some of them unusual. None is empty, which is said of a free name.
var strangeOwners = []string{"\x00", "o1", "o2", "\xfe:\n"}

// drawn returns a random batch of operations of some owners on some names. They conflict, as the names are few.
func drawn(r *rand.Rand, names, owners []string, last uint64) []wire.Op {
	pick := func() string { return names[min(r.IntN(len(names)), r.IntN(len(names)))] }
	ops := make([]wire.Op, 1+r.IntN(40))
	for i := range ops {
		owner, name := owners[r.IntN(len(owners))], pick()
		switch r.IntN(28) {
		case 0, 1, 2, 3, 4, 5:
			ops[i] = acquire(owner, name)
			ops[i].Fair = r.IntN(2) == 0
			ops[i].Reserve = uint64(r.IntN(2) * r.IntN(3000))
		case 6, 7, 8, 9, 10:
			ops[i] = release(owner, name)
			ops[i].Announce = r.IntN(3) == 0
		case 11, 12, 13, 14:
			ops[i] = renew(owner, name)
		case 15:
			ops[i] = acquire(owner, name)
			ops[i].Fair = r.IntN(2) == 0
			ops[i].Waiter = wire.Waiter{ID: fmt.Sprint("c:", r.IntN(3)), Ticket: int64(r.IntN(5)), Keep: long}
		case 16:
			ops[i] = acquire(owner, "b", names[2], names[1])
		case 17:
			ops[i] = renew(owner, names[1], names[2])
		case 18:
			ops[i] = wire.Op{Kind: wire.Leave, Names: []string{name}, Waiter: wire.Waiter{ID: fmt.Sprint("c:", r.IntN(3))}}
		case 19, 20, 21:
			ops[i] = reads(acquire(owner, name))
			ops[i].Fair = r.IntN(2) == 0
			ops[i].Floor = last * uint64(r.IntN(8)/7)
		case 22:
			ops[i] = reads(renew(owner, name))
		case 23:
			ops[i] = reads(release(owner, name))
			ops[i].Announce = r.IntN(6) == 0
		case 24, 25, 26:
			ops[i] = slot(r, acquire(owner), name)
			ops[i].Fair = r.IntN(2) == 0
			if r.IntN(3) == 0 {
				ops[i].Kind = wire.Release
			}
			if r.IntN(4) == 0 { // a renewal that heals runs again behind the others, so it must not concern their slots
				ops[i].Pool.Name = wire.PoolName("one")
				ops[i].Names = []string{wire.SlotName(ops[i].Pool.Name, 0)}
				if r.IntN(2) == 0 {
					ops[i].Kind, ops[i].Pool = wire.Renew, wire.Pool{}
				}
			}
		default:
			ops[i] = force(name)
			if r.IntN(3) == 0 {
				ops[i] = inspect(name)
			}
		}
		ops[i].Owner = owner
		if ops[i].Reads && name == "" {
			ops[i].Names = []string{"b"} // no list of readers has an empty name
		}
		if r.IntN(4) == 0 {
			ops[i].TTL = long / 2
		}
		if r.IntN(20) == 0 && !ops[i].Reads { // the token of a reader would follow the node's clock
			ops[i].Limits = differing
		}
		ops[i].Token = last + uint64(r.IntN(6000)) - 3000
		switch r.IntN(40) {
		case 0:
			ops[i].Token = 1<<64 - 1
		case 1:
			ops[i].Token = uint64(r.IntN(2))
		case 2:
			ops[i].Token = 1 << 53
		}
	}
	tooLong := r.IntN(10) == 0
	ops = complete(ops...)
	for i := range ops {
		switch {
		case ops[i].Kind == wire.Release:
			ops[i].TTL = time.Duration(r.IntN(2)) * long
		case tooLong:
			ops[i].TTL = 2 * limits.MaxTTL
		}
	}
	return ops
}

// inOneCall leaves the operations that one script call can carry, at least one.
func inOneCall(ops []wire.Op) []wire.Op {
	first := ops[0]
	ops = slices.DeleteFunc(ops, func(op wire.Op) bool {
		return op.Kind > wire.Release || op.Waiter.ID != "" || len(op.Names) > 1 || op.Reads && op.Kind == wire.Renew
	})
	if len(ops) == 0 {
		return []wire.Op{first}
	}
	if slices.ContainsFunc(ops, func(op wire.Op) bool { return op.Reads }) {
		ops[0].Limits = limits // see drawn
	}
	for i := range ops {
		ops[i].TTL, ops[i].Limits = ops[0].TTL, ops[0].Limits
	}
	return ops
}

// slot makes an operation one on a slot of a semaphore. Its pool has two slots, or three as of another version.
func slot(r *rand.Rand, op wire.Op, semaphore string) wire.Op {
	op.Pool = wire.Pool{Name: wire.PoolName(semaphore), Size: 2}
	if r.IntN(10) == 0 {
		op.Pool.Size, op.Pool.Version = 3, uint64(1+r.IntN(2))
	}
	op.Names = []string{wire.SlotName(op.Pool.Name, min(r.IntN(4), r.IntN(4)))}
	return op
}

// damage leaves unexpected keys and values on the servers. In the place of a queue it does so only if the marker notes queues, since
// a batch sees none otherwise.
func damage(r *rand.Rand, last uint64, noted bool, servers ...*redisproc.Server) {
	name := strangeNames[r.IntN(4)]
	before, behind := "{", "}"
	if strings.Contains(name, "{") {
		before, behind = ":", ""
	}
	fences, at, queue := "quorumlock:fences", fmt.Sprint(node.FenceOffset(name)), "quorumlock:queue:"+before+name+behind
	all := [][]string{
		{"SET", name, "foreign"},
		{"DEL", name},
		{"EVAL", "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], 'somebody', 1) end", "1", name},
		{"SETRANGE", fences, at, fmt.Sprint(last + 1500)},
		{"SETRANGE", fences, at, "-000000000000005"},
		{"SETRANGE", fences, at, "0x00000000000010"},
		{"SETRANGE", fences, at, "damaged, damaged"},
		{"SETRANGE", fences, at, strings.Repeat("\x00", 16)},
		{"DEL", fences},
		{"SET", queue, "1"},
		{"ZADD", queue, "1", "dead:1"},
		{"DEL", queue},
		{"DEL", "quorumlock:readers:" + before + name + behind},
		{"SET", "quorumlock:readers:" + before + name + behind, "1"},
		{"ZADD", "quorumlock:readers:" + before + name + behind, "17", "ended"},
		{"SET", wire.SlotName(wire.PoolName(name), 0), "foreign"},
		{"DEL", wire.SlotName(wire.PoolName(name), 0)},
		{"DEL", "quorumlock:slots:" + before + name + behind},
		{"HSET", wire.PoolName(name), "size", "3", "version", "1"},
	}
	args := all[r.IntN(len(all))]
	if args[1] == queue && !noted {
		return
	}
	for _, s := range servers {
		_, _ = s.Command(args...) // some commands do not fit the keys there
	}
}

// leftKey is a key that operations have left on a server.
type leftKey struct {
	// description has its value without what depends on time.
	description string
	// ttl is its PTTL.
	ttl time.Duration
}

// left lists a server's keys.
func left(t *testing.T, s *redisproc.Server) (all []leftKey) {
	t.Helper()
	for _, key := range s.Keys() {
		kind := command(t, s, "TYPE", key)
		value := ""
		switch {
		case key == "quorumlock:node":
		case kind == "string":
			value = strings.ReplaceAll(command(t, s, "GET", key), "\x00", "")
		case kind == "hash" && (strings.HasPrefix(key, "quorumlock:waiting:") || strings.HasPrefix(key, "quorumlock:tombstone:")):
			fields := strings.Split(command(t, s, "HKEYS", key), "\n")
			slices.Sort(fields)
			value = fmt.Sprint(fields)
		case kind == "hash":
			value = command(t, s, "HGETALL", key)
		case kind == "zset" && strings.HasPrefix(key, "quorumlock:queue:"):
			value = command(t, s, "ZRANGE", key, "0", "-1", "WITHSCORES")
		case kind == "zset":
			members := strings.Split(command(t, s, "ZRANGE", key, "0", "-1"), "\n")
			slices.Sort(members)
			value = fmt.Sprint(members)
		}
		ttl := number(t, command(t, s, "PTTL", key))
		all = append(all, leftKey{
			description: fmt.Sprintf("%q %s %q, without an end: %v", key, kind, value, ttl < 0),
			ttl:         time.Duration(ttl) * time.Millisecond,
		})
	}
	return all
}

// requireLeft requires that a server has the expected keys. Their TTLs may differ by the time since the first operation.
func requireLeft(t *testing.T, s *redisproc.Server, began time.Time, expected []leftKey, msg string, args ...any) {
	t.Helper()
	actual := left(t, s)
	descriptions := func(keys []leftKey) (all []string) {
		for _, k := range keys {
			all = append(all, k.description)
		}
		return all
	}
	require.Equal(t, descriptions(expected), descriptions(actual), append([]any{msg}, args...)...)
	const rounding = 2 * time.Millisecond
	for i, k := range actual {
		if strings.HasPrefix(k.description, `"quorumlock:slots:`) {
			continue // it has the life that the last client gave it, and a renewal that heals comes last
		}
		require.InDelta(t, expected[i].ttl, k.ttl, float64(time.Since(began)+rounding), "%s: %s", k.description, fmt.Sprintf(msg, args...))
	}
}

// A batch has the same answers and the same effects as its operations sent one by one. This holds for strange names and
// owners, on damaged servers, and in both versions of the protocol.
func TestManyOperationsAreWhatEachIs(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	together, inRESP2, alone := start(t), start(t), start(t)
	opt, err := node.ParseAddress(inRESP2.Addr())
	require.NoError(t, err)
	opt.AlwaysRESP2 = true
	nodes := []node.Node{open(t, together.Addr()), openWith(t, opt), open(t, alone.Addr())}
	servers := []*redisproc.Server{together, inRESP2, alone}
	for i, n := range nodes {
		for range 2 { // the second time also the form with queues: what follows a script that the server lacks runs twice
			loadScripts(n, limits, differing)
			command(t, servers[i], "HSET", "quorumlock:node", "queues", "4000000000000")
		}
	}
	for round := range 15 {
		noted := round%2 == 0
		for _, s := range servers {
			command(t, s, "FLUSHALL")
			admit(t, s)
			if noted {
				command(t, s, "HSET", "quorumlock:node", "queues", "4000000000000")
			}
		}
		began := time.Now()
		last := uint64(began.UnixMicro())
		for range 1 + r.IntN(6) {
			for range r.IntN(3) {
				damage(r, last, noted, servers...)
			}
			ops := drawn(r, strangeNames, strangeOwners, last)
			if r.IntN(2) == 0 {
				ops = inOneCall(ops)
			}
			each := make([]wire.Reply, 0, len(ops))
			for _, op := range ops {
				each = append(each, do(nodes[2], op)...)
			}
			expected := told(ops, each)
			require.Equal(t, expected, told(ops, do(nodes[0], ops...)), "seed %d, round %d: %s", seed, round, brief(ops))
			require.Equal(t, expected, told(ops, do(nodes[1], ops...)), "seed %d, round %d: %s", seed, round, brief(ops))
		}
		expected := left(t, alone)
		requireLeft(t, together, began, expected, "seed %d, round %d", seed, round)
		requireLeft(t, inRESP2, began, expected, "seed %d, round %d", seed, round)
	}
}

// brief describes a batch for the output of a failed test.
func brief(ops []wire.Op) string {
	var b strings.Builder
	for i, op := range ops {
		fmt.Fprintf(&b, "\n%d %v reads %v %.40q %q token %d+%d floor %d fair %v ttl %v w %v pool %v", i, op.Kind, op.Reads, op.Names, op.Owner, op.Token, op.Reserve, op.Floor, op.Fair, op.TTL, op.Waiter.ID, op.Pool)
	}
	return b.String()
}
