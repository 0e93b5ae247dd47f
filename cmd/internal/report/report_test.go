package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// noon is the time of these tests' rounds.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func tokenAt(at time.Time) uint64 { return uint64(at.UnixMicro()) }

// nodesWith returns nodes that all say the same about the locks.
func nodesWith(n int, locks map[string]watch.Lock) (nodes []watch.Node) {
	for i := range n {
		nodes = append(nodes, watch.Node{Name: string(rune('x' + i)), Latency: time.Millisecond, Locks: locks})
	}
	return nodes
}

func held(name, owner string, ttl time.Duration, token uint64) watch.Lock {
	return watch.Lock{Holders: []node.Holder{{Name: name, Owner: owner, TTL: ttl, Token: token}}}
}

func TestStatesOfALock(t *testing.T) {
	failed := &node.Error{Node: "n", Op: wire.Inspect.String(), Reason: node.ErrUnreachable}
	for _, c := range []struct {
		holders string // of each node; "-" for none, "r" if it recovers too, "s" for another type, "x" for no answer
		state   string
	}{
		{"-----", Free},
		{"---xx", Free},
		{"---ab", Free},
		{"--xxx", NoQuorum},
		{"aaaaa", Held},
		{"aaaxx", Held},
		{"aaabb", Held},
		{"aaxxx", NoQuorum},
		{"aaxx-", Partial},
		{"aabb-", Partial},
		{"aa--x", Partial},
		{"sss--", WrongType},
		{"sssxx", WrongType},
		{"ssaaa", Held},
		{"ss---", Free},
		{"ss--x", Partial},
		{"sxxx-", NoQuorum},
		{"r----", Free},
		{"rr---", Free},
		{"rrr--", Recovering},
		{"rrrrr", Recovering},
		{"rr--a", Recovering},
		{"rrraa", Recovering},
		{"rr-xx", Recovering},
		{"rraaa", Held},
		{"rraax", Partial},
		{"rrxxx", NoQuorum},
	} {
		s := &watch.Facts{}
		for _, h := range c.holders {
			n := watch.Node{Name: "n", Locks: make(map[string]watch.Lock)}
			switch h {
			case '-':
			case 'x':
				n.Err = failed
			case 'r':
				n.Recovering = time.Second
			case 's':
				n.Locks["k"] = watch.Lock{Err: &node.Error{Node: "n", Op: wire.Inspect.String(), Reason: node.ErrWrongType}}
			default:
				n.Locks["k"] = held("k", string(h), time.Second, 0)
			}
			s.Nodes = append(s.Nodes, n)
		}
		n := NewStatus(noon, s, []string{"k"})[0]
		assert.Equal(t, c.state, n.State, c.holders)
		assert.Equal(t, c.state == Held, n.Owner != "", c.holders)
		assert.Equal(t, strings.Contains(c.holders, "r"), strings.Contains(n.summary(), "new locks"), n.summary())
		assert.Equal(t, strings.Contains(c.holders, "s"), strings.Contains(n.summary(), AnotherName), n.summary())
	}
}

func TestTopOfALock(t *testing.T) {
	facts := &watch.Facts{Names: []string{"job"}, Whole: true, Nodes: nodesWith(3, nil)}
	for i, ttl := range []time.Duration{5 * time.Second, 7 * time.Second, 9 * time.Second} {
		l := held("job", "C:1 web-1/77 nightly report", ttl, tokenAt(noon.Add(-3*time.Second)))
		l.Waiters = []int{2, 3, 9}[i]
		facts.Nodes[i].Locks = map[string]watch.Lock{"job": l}
	}
	top := NewTop(noon, facts, nil)
	assert.Equal(t, []Row{{
		Key: "job", Permit: -1, State: Held, Owner: "C:1 web-1/77 nightly report", Holder: "web-1/77", Purpose: "nightly report",
		age:     age{Since: "2026-05-01T11:59:57Z", Held: whole(3 * time.Second)},
		TTL:     whole(7 * time.Second), // as long as two nodes keep it
		Backing: 3, Waiters: 3,          // as many as two nodes know of
	}}, top.Locks)
	assert.Equal(t, 2, top.Need)
	assert.Equal(t, 3, top.Answered)
	assert.True(t, top.Complete)
	assert.Equal(t, 1, top.Nodes[0].Locks)
}

// TestAgeIsFromTheToken: a token tells the time of the grant. A lock of Redisson never has a token.
func TestAgeIsFromTheToken(t *testing.T) {
	for _, c := range []struct {
		token uint64
		is    age
	}{
		{tokenAt(noon.Add(-2 * time.Second)), age{"2026-05-01T11:59:58Z", whole(2 * time.Second)}},
		{tokenAt(noon.Add(time.Second)), age{"2026-05-01T12:00:00Z", 0}}, // clocks differ
		{0, age{}},
	} {
		facts := &watch.Facts{Names: []string{"job"}, Nodes: nodesWith(3, map[string]watch.Lock{"job": held("job", "C:1 web-1/77", time.Second, c.token)})}
		assert.Equal(t, c.is, NewTop(noon, facts, nil).Locks[0].age)
	}
}

func TestTopShowsUnusualLocks(t *testing.T) {
	slot := wire.SlotName(wire.PoolName("pool"), 3)
	facts := &watch.Facts{Nodes: nodesWith(3, nil), Names: []string{"free", "found-free", "alone", "read", slot, "for ever", "text"}}
	reader := func(owner string) node.Holder {
		return node.Holder{Name: "read", Owner: owner, TTL: time.Second, Reads: true}
	}
	for i := range facts.Nodes {
		facts.Nodes[i].Locks = map[string]watch.Lock{
			"read":     {Holders: []node.Holder{reader("C:1"), reader("D:1")}},
			slot:       held(slot, "C:9", time.Second, 0),
			"for ever": held("for ever", "C:3", node.NoExpiry, 0), // not a lock
			"text":     held("text", "some field", time.Second, 0),
		}
	}
	facts.Nodes[2].Locks["alone"] = held("alone", "C:4 h/1", 4*time.Second, 0) // one node of three is not enough
	assert.Equal(t, []Row{
		{Key: "alone", Permit: -1, State: Free, Owner: "C:4 h/1", Holder: "h/1", TTL: whole(4 * time.Second), Backing: 1},
		{Key: "free", Permit: -1, State: Free},
		{Key: slot, Semaphore: "pool", Permit: 3, State: Held, Owner: "C:9", TTL: whole(time.Second), Backing: 3},
		{Key: "read", Permit: -1, State: Held, Owner: node.Readers, Readers: 2, TTL: whole(time.Second), Backing: 3},
	}, NewTop(noon, facts, []string{"free"}).Locks)
}

func TestTopOfNodes(t *testing.T) {
	facts := &watch.Facts{Names: []string{"job"}, Nodes: nodesWith(5, map[string]watch.Lock{"job": held("job", "C:1", time.Second, 0)})}
	facts.Nodes[0] = watch.Node{Name: "down", Err: &node.Error{Node: "down", Op: wire.Inspect.String(), Reason: node.ErrUnreachable}}
	facts.Nodes[1].Recovering = 3 * time.Second
	facts.Nodes[2].Recovering, facts.Nodes[2].Unmarked = 11*time.Second, true
	facts.Nodes[3].Unlisted, facts.Nodes[3].Uncounted = errors.New("no\nscan"), errors.New("no zrange")
	top := NewTop(noon, facts, nil)
	assert.Equal(t, 4, top.Answered)
	assert.Equal(t, "unreachable", top.Nodes[0].Error)
	assert.Equal(t, "recovers for another 3s", top.Nodes[1].Note)
	assert.Equal(t, "recovers for 11s from the first attempt at a lock on", top.Nodes[2].Note)
	assert.Equal(t, `not searched for locks: no\nscan; waiters not counted: no zrange`, top.Nodes[3].Note)
	assert.Equal(t, 4, top.Locks[0].Backing)
	facts.Nodes[1].Err, facts.Nodes[2].Err = errors.New("x"), errors.New("y")
	assert.Equal(t, NoQuorum, NewTop(noon, facts, nil).Locks[0].State)
}

func TestTopText(t *testing.T) {
	slot := wire.SlotName(wire.PoolName("pool"), 3)
	facts := &watch.Facts{Names: []string{"job", slot, "free", "half"}, Nodes: nodesWith(3, nil)}
	for i := range facts.Nodes {
		job := held("job", "C:1 web-1/77 nightly report", 7*time.Second, tokenAt(noon.Add(-90*time.Second)))
		job.Waiters = watch.MostWaiters
		facts.Nodes[i].Locks = map[string]watch.Lock{"job": job, slot: held(slot, "C:9", time.Second, 0)}
	}
	facts.Nodes[1].Locks["half"] = held("half", "D:1 web-2/5\x1b[2J", time.Second, 0)
	facts.Nodes[2] = watch.Node{Name: "z", Err: node.ErrTimeout}
	assert.Equal(t, `2 of 3 nodes answer (2 needed), 2 locks held, 100 waiting; not all keys were searched

NODE  LATENCY  LOCKS  NOTE
x     1.0ms    2      -
y     1.0ms    3      -
z     -        -      timeout

LOCK     NODES  TTL   HELD   WAIT  HOLDER                    PURPOSE
free     -      -     -      0     free                      -
half     1/3    1.0s  -      0     web-2/5\x1b[2J (partial)  -
job      2/3    7.0s  1m30s  100+  web-1/77                  nightly report
pool #3  2/3    1.0s  -      0     C:9                       -
`, NewTop(noon, facts, []string{"free"}).String())
}

// TestStatusText: the words of every kind, with a node that does not answer.
func TestStatusText(t *testing.T) {
	slot := func(i int) string { return wire.SlotName(wire.PoolName("s"), i) }
	facts := &watch.Facts{Names: []string{"k", "s", slot(0), slot(1)}, Nodes: nodesWith(3, nil)}
	for i := range facts.Nodes {
		facts.Nodes[i].Locks = map[string]watch.Lock{
			"k":     held("k", "C:1 web-1/77 report", 7*time.Second, tokenAt(noon.Add(-90*time.Second))),
			slot(0): held(slot(0), "D:5", 2*time.Second, tokenAt(noon.Add(-time.Second))),
			"r":     {Holders: []node.Holder{{Name: "r", Owner: "F:1", TTL: time.Second, Reads: true}}},
		}
		facts.Nodes[i].Kinds = map[string]watch.Kinds{
			"s": {Permits: 2, Version: 1}, "l": {Count: 3, Counted: []string{"a", fmt.Sprint(i)}},
		}
	}
	facts.Nodes[0].Locks[slot(1)] = held(slot(1), "E:1", time.Second, 0)
	facts.Nodes[2] = watch.Node{Name: "z", Err: &node.Error{Node: "z", Op: wire.Inspect.String(), Reason: node.ErrTimeout}}
	token, last := fmt.Sprint(tokenAt(noon.Add(-90*time.Second))), fmt.Sprint(tokenAt(noon.Add(-time.Second)))
	assert.Equal(t, `NODE  HOLDER                 LARGEST TOKEN     TTL LEFT  LATENCY  NOTE
x     C:1 (web-1/77 report)  `+token+`  7s        1ms      -
y     C:1 (web-1/77 report)  `+token+`  7s        1ms      -
z     -                      -                 -         -        timeout
"k" is held by C:1 (web-1/77 report) on 2 of 3 nodes (2 needed), for 1m30s so far

NODE  HOLDER  LARGEST TOKEN  TTL LEFT  LATENCY  NOTE
x     -       -              -         1ms      -
y     -       -              -         1ms      -
z     -       -              -         -        timeout
no lock "s" is held: 2 of 3 nodes answered (2 needed)
PERMIT  HOLDER  NODES  TTL LEFT  HELD  LARGEST TOKEN
0       D:5     2/3    2s        1s    `+last+`
1       E:1     1/3    1s        -     -
semaphore "s": 1 of 2 permits held; 1 on too few nodes

NODE  HOLDER  LARGEST TOKEN  TTL LEFT  LATENCY  NOTE
x     -       -              -         1ms      -
y     -       -              -         1ms      -
z     -       -              -         -        timeout
no lock "l" is held: 2 of 3 nodes answered (2 needed)
latch "l": done, all 3 have counted down

NODE  HOLDER    LARGEST TOKEN  TTL LEFT  LATENCY  NOTE
x     1 reader  -              1s        1ms      -
y     1 reader  -              1s        1ms      -
z     -         -              -         -        timeout
READER  NODES  TTL LEFT
F:1     2/3    1s
"r" is held by 1 reader on 2 of 3 nodes (2 needed)
`, NewStatus(noon, facts, []string{"k", "s", "l", "r"}).String())
	require.Len(t, NewLock("k", facts).Owners(), 1)
}
