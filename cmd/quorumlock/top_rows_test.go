package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/watch"
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

func newTopper(given ...string) *topper {
	return &topper{given: given, order: topOrders["name"]}
}

func TestTopOfALock(t *testing.T) {
	facts := &watch.Facts{Names: []string{"job"}, Whole: true, Nodes: nodesWith(3, nil)}
	for i, ttl := range []time.Duration{5 * time.Second, 7 * time.Second, 9 * time.Second} {
		l := held("job", "C:1 web-1/77 nightly report", ttl, tokenAt(noon.Add(-3*time.Second)))
		l.Waiters = []int{2, 3, 9}[i]
		facts.Nodes[i].Locks = map[string]watch.Lock{"job": l}
	}
	r := newTopper().report(noon, facts)
	require.Len(t, r.Locks, 1)
	l := r.Locks[0]
	assert.Equal(t, topLock{
		Key: "job", Permit: -1, State: stateHeld, Owner: "C:1 web-1/77 nightly report", Holder: "web-1/77", Purpose: "nightly report",
		heldFor: heldFor{Since: "2026-05-01T11:59:57Z", Held: 3000, held: 3 * time.Second},
		TTL:     7000, ttl: 7 * time.Second, // as long as two nodes keep it
		Backing: 3, Waiters: 3, // as many as two nodes know of
	}, l)
	assert.Equal(t, 2, r.Need)
	assert.Equal(t, 3, r.Answered)
	assert.True(t, r.Complete)
	assert.Equal(t, 1, r.Nodes[0].Locks)
}

// TestTopRemembersTheTimeOfTheGrant: a token tells the time of the grant, as long as the lock is held. Of a lock without a token,
// top remembers when it saw it first.
func TestTopRemembersTheTimeOfTheGrant(t *testing.T) {
	const owner = "C:1 web-1/77"
	look := func(top *topper, at time.Time, owner string, token uint64) topLock {
		facts := &watch.Facts{Names: []string{"job"}, Nodes: nodesWith(3, map[string]watch.Lock{"job": held("job", owner, time.Second, token)})}
		return top.report(at, facts).Locks[0]
	}
	top := newTopper()
	token := tokenAt(noon.Add(-2 * time.Second))
	assert.Equal(t, 2*time.Second, look(top, noon, owner, token).held)
	for _, top := range []*topper{top, newTopper()} {
		late := look(top, noon.Add(time.Hour), owner, token)
		assert.Equal(t, time.Hour+2*time.Second, late.held)
		assert.False(t, late.AtLeast)
	}
	next := look(top, noon.Add(time.Hour), "C:2 web-1/77", 0)
	assert.Zero(t, next.held, "it has no token, and was not seen before")
	assert.True(t, next.AtLeast)
	later := look(top, noon.Add(2*time.Hour), "C:2 web-1/77", 0)
	assert.Equal(t, time.Hour, later.held)
	assert.True(t, later.AtLeast)

	down := &watch.Facts{Names: []string{"job"}, Nodes: []watch.Node{{Err: node.ErrTimeout}, {Err: node.ErrTimeout}, {}}}
	assert.Empty(t, top.report(noon.Add(2*time.Hour), down).Locks)
	assert.Equal(t, 2*time.Hour, look(top, noon.Add(3*time.Hour), "C:2 web-1/77", 0).held, "the row was not forgotten in between")

	redisson := look(newTopper(), noon, "d4e5f6a7-0b1c-4d2e-8f3a-112233445566:47", 0)
	assert.Zero(t, redisson.held, "a lock of Redisson never has a token")
	assert.True(t, redisson.AtLeast)
	ahead := look(newTopper(), noon, owner, tokenAt(noon.Add(time.Second)))
	assert.Zero(t, ahead.held, "clocks differ")
	assert.False(t, ahead.AtLeast)
}

func TestTopShowsUnusualLocks(t *testing.T) {
	slot := node.SlotName(node.PoolName("pool"), 3)
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
	facts.Nodes[2].Locks["alone"] = held("alone", "C:4 h/1", 4*time.Second, 0)
	r := newTopper("free").report(noon, facts)
	byKey := make(map[string]topLock)
	var keys []string
	for _, l := range r.Locks {
		byKey[l.Key] = l
		keys = append(keys, l.Key)
	}
	assert.Equal(t, []string{"alone", "free", slot, "read"}, keys)
	assert.Equal(t, stateFree, byKey["free"].State)
	assert.Empty(t, byKey["free"].Owner)
	assert.Equal(t, stateFree, byKey["alone"].State, "one node of three is not enough")
	assert.Equal(t, "h/1", byKey["alone"].Holder)
	assert.Equal(t, 1, byKey["alone"].Backing)
	assert.EqualValues(t, 4000, byKey["alone"].TTL)
	assert.Equal(t, 2, byKey["read"].Readers)
	assert.Equal(t, 3, byKey["read"].Backing)
	assert.Empty(t, byKey["read"].Since)
	assert.Equal(t, "pool", byKey[slot].Semaphore)
	assert.Equal(t, 3, byKey[slot].Permit)
}

func TestTopOfNodes(t *testing.T) {
	facts := &watch.Facts{Names: []string{"job"}, Nodes: nodesWith(5, map[string]watch.Lock{"job": held("job", "C:1", time.Second, 0)})}
	facts.Nodes[0] = watch.Node{Name: "down", Err: &node.Error{Node: "down", Op: node.Inspect, Reason: node.ErrUnreachable}}
	facts.Nodes[1].Recovering = 3 * time.Second
	facts.Nodes[2].Recovering, facts.Nodes[2].Unmarked = 11*time.Second, true
	facts.Nodes[3].Unlisted, facts.Nodes[3].Uncounted = errors.New("no\nscan"), errors.New("no zrange")
	r := newTopper().report(noon, facts)
	assert.Equal(t, 4, r.Answered)
	assert.Equal(t, "unreachable", r.Nodes[0].Error)
	assert.Equal(t, "recovers for another 3s", r.Nodes[1].Note)
	assert.Equal(t, "recovers for 11s from the first attempt at a lock on", r.Nodes[2].Note)
	assert.Equal(t, `not searched for locks: no\nscan; waiters not counted: no zrange`, r.Nodes[3].Note)
	assert.Equal(t, 4, r.Locks[0].Backing)
	facts.Nodes[1].Err, facts.Nodes[2].Err = errors.New("x"), errors.New("y")
	assert.Equal(t, stateNoQuorum, newTopper().report(noon, facts).Locks[0].State)
}

func TestTopOrders(t *testing.T) {
	locks := []topLock{
		{Key: "b", Permit: -1, heldFor: heldFor{held: 1}, ttl: 9, Waiters: 5},
		{Key: "a", Permit: -1, heldFor: heldFor{held: 2}, ttl: 8, Waiters: 5},
		{Key: "c", Permit: -1, heldFor: heldFor{held: 3}, ttl: 7},
	}
	for order, want := range map[string]string{"name": "abc", "held": "cab", "ttl": "cab", "waiters": "abc"} {
		sorted := slices.SortedStableFunc(slices.Values(locks), topOrders[order])
		got := ""
		for _, l := range sorted {
			got += l.Key
		}
		assert.Equal(t, want, got, order)
	}
}

// manyLocks returns a report with n locks.
func manyLocks(n int) *topReport {
	facts := &watch.Facts{Whole: true, Nodes: nodesWith(3, map[string]watch.Lock{})}
	for i := range n {
		name := strings.Repeat("long", 20) + string(rune('a'+i))
		facts.Names = append(facts.Names, name)
		facts.Nodes[0].Locks[name] = held(name, "C:1 h/1 \x1b[2Jevil\n", time.Second, 0)
	}
	return newTopper().report(noon, facts)
}

func TestTopFitsTheScreen(t *testing.T) {
	r := manyLocks(20)
	for height := 1; height < 35; height++ {
		for _, width := range []int{1, 10, 40, 200} {
			lines := (&topText{width: width, height: height}).lines(r)
			assert.LessOrEqual(t, len(lines), height)
			for _, l := range lines {
				assert.LessOrEqual(t, utf8.RuneCountInString(l), width)
				assert.NotContains(t, l, "\x1b")
			}
		}
	}
	lines := (&topText{width: 80, height: 12}).lines(r)
	assert.Equal(t, "... and 17 more", lines[11])
	lines = (&topText{width: 80, height: 28}).lines(r)
	assert.Contains(t, lines[27], "long", "all of it has a place")
	assert.Contains(t, (&topText{width: 80, height: 27}).lines(r)[26], "... and 2 more")

	plain := (&topText{}).lines(r)
	assert.Contains(t, plain[len(plain)-1], strings.Repeat("long", 20)+"t", "nothing is cut where there is no screen")
	assert.Contains(t, plain[len(plain)-1], `\x1b[2Jevil\n`)
}

func TestTopText(t *testing.T) {
	slot := node.SlotName(node.PoolName("pool"), 3)
	facts := &watch.Facts{Names: []string{"job", slot, "free", "half"}, Nodes: nodesWith(3, nil)}
	for i := range facts.Nodes {
		job := held("job", "C:1 web-1/77 nightly report", 7*time.Second, tokenAt(noon.Add(-90*time.Second)))
		job.Waiters = watch.MostWaiters
		facts.Nodes[i].Locks = map[string]watch.Lock{"job": job, slot: held(slot, "C:9", time.Second, 0)}
	}
	facts.Nodes[1].Locks["half"] = held("half", "D:1 web-2/5", time.Second, 0)
	facts.Nodes[2] = watch.Node{Name: "z", Err: node.ErrTimeout}
	r := newTopper("free").report(noon, facts)
	assert.Equal(t, `2 of 3 nodes answer (2 needed), 2 locks held, 100 waiting; not all keys were searched yet

NODE  LATENCY  LOCKS  NOTE
x     1.0ms    2      -
y     1.0ms    3      -
z     -        -      timeout

LOCK     NODES  TTL   HELD   WAIT  HOLDER             PURPOSE
free     -      -     -      0     free               -
half     1/3    1.0s  >0s    0     web-2/5 (partial)  -
job      2/3    7.0s  1m30s  100+  web-1/77           nightly report
pool #3  2/3    1.0s  >0s    0     C:9                -`, strings.Join((&topText{}).lines(r), "\n"))

	coloured := strings.Join((&topText{colour: true}).lines(r), "\n")
	assert.Contains(t, coloured, "\x1b[31mz ")
	assert.Contains(t, coloured, "\x1b[33mhalf ")
	assert.Contains(t, coloured, "\njob ")
}
