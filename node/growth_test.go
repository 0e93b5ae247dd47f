package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node/memory"
)

// history records the grants of a node that loses its memory over and over. It checks the
// invariants that must survive every loss, for a single name. Another name shares the place of its
// fence.
type history struct {
	*rapid.T
	clock  *testkit.Clock
	node   *memory.Node
	limits wire.Limits
	// taken is the largest token that the node accepted. tokens are the tokens for renewals.
	taken  uint64
	tokens []uint64
	// claims maps each owner for whom the node counts to the end of its claim on the node's clock.
	claims map[string]time.Duration
}

var owners = []string{"o1", "o2", "o3"}

// recall starts with an open node that has granted nothing yet.
func recall(t *rapid.T) *history {
	ms := time.Millisecond
	h := &history{
		T:      t,
		clock:  testkit.NewClock(time.UnixMicro(1_700_000_000_000_000 + rapid.Int64Range(0, 999).Draw(t, "µs"))),
		limits: wire.Limits{MaxTTL: 40 * ms, MaxClockSkew: rapid.SampledFrom([]time.Duration{0, ms, 20 * ms}).Draw(t, "skew")},
		claims: make(map[string]time.Duration),
	}
	h.node = memory.New("m", h.clock)
	h.open(h.limits)
	return h
}

func (h *history) do(op wire.Op) wire.Reply {
	op.Limits = h.limits
	if op.Kind != wire.Mark && op.Kind != wire.Open && op.Names == nil {
		op.Names = []string{"a"}
	}
	replies := make([]wire.Reply, 1)
	h.node.Do(h.Context(), []wire.Op{op}, replies)
	return replies[0]
}

// open marks the node under its current limits and opens it with other limits.
func (h *history) open(limits wire.Limits) {
	m := h.do(wire.Op{Kind: wire.Mark}).Marker
	h.limits = limits
	require.Equal(h, wire.Granted, h.do(wire.Op{Kind: wire.Open, Marker: m}).Outcome)
}

func (h *history) pass(t *rapid.T) {
	far := 2 * h.limits.Recovery()
	h.clock.Advance(time.Duration(rapid.OneOf(
		rapid.Int64Range(1, 3),
		rapid.Int64Range(1, far.Microseconds()),
		rapid.SampledFrom([]int64{h.limits.Recovery().Microseconds(), h.limits.MaxTTL.Microseconds()}),
	).Draw(t, "pass")) * time.Microsecond)
}

// token draws a token near the node's acceptance bounds or near a token that the node has
// accepted.
func (h *history) token(t *rapid.T) uint64 {
	now := h.clock.Wall().UnixMicro()
	near := rapid.SampledFrom([]int64{
		now - h.limits.Recovery().Microseconds(), now - h.limits.MaxTTL.Microseconds(), now, now + h.limits.MaxClockSkew.Microseconds(), int64(h.taken),
	}).Draw(t, "near")
	return uint64(near + rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64Range(-2000, 2000)).Draw(t, "off"))
}

func (h *history) ttl(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(1, h.limits.MaxTTL.Milliseconds()).Draw(t, "ttl")) * time.Millisecond
}

func (h *history) acquire(t *rapid.T) {
	op := wire.Op{Kind: wire.Acquire, Owner: rapid.SampledFrom(owners).Draw(t, "owner"), TTL: h.ttl(t), Token: h.token(t)}
	op.Reserve = rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 20), rapid.Uint64Range(0, uint64(h.limits.Recovery().Microseconds()))).Draw(t, "reserve")
	r := h.do(op)
	if r.Outcome != wire.Granted {
		return
	}
	if r.Token == 0 {
		require.Greater(t, op.Token, h.taken, "a token that is not larger than one before")
		h.taken = op.Token + op.Reserve
		h.tokens = append(h.tokens, h.taken)
	} else {
		require.GreaterOrEqual(t, r.Token, op.Token)
	}
	h.claim(t, op)
}

// renew repeats the end of any block that was ever taken. A recovering node counts the renewal
// only for its current owners.
func (h *history) renew(t *rapid.T) {
	op := wire.Op{Kind: wire.Renew, Owner: rapid.SampledFrom(owners).Draw(t, "owner"), TTL: h.ttl(t)}
	if len(h.tokens) > 0 {
		op.Token = rapid.SampledFrom(h.tokens).Draw(t, "token")
	}
	r := h.do(op)
	switch r.Outcome {
	case wire.Granted, wire.Healed:
		if r.Recovering == 0 || h.counts(op.Owner) {
			h.claim(t, op)
		}
	case wire.Denied:
		delete(h.claims, op.Owner)
	}
}

func (h *history) release(t *rapid.T) {
	owner := rapid.SampledFrom(owners).Draw(t, "owner")
	h.do(wire.Op{Kind: wire.Release, Owner: owner})
	delete(h.claims, owner)
}

// neighbour lets another owner use a name that shares the place of its fence.
func (h *history) neighbour(t *rapid.T) {
	op := wire.Op{
		Kind:  rapid.SampledFrom([]wire.Kind{wire.Acquire, wire.Renew, wire.Release}).Draw(t, "kind"),
		Names: []string{"a229734"}, Owner: "another", TTL: h.ttl(t), Token: h.token(t), Reads: rapid.Bool().Draw(t, "reads"),
	}
	h.do(op)
}

func (h *history) counts(owner string) bool { return h.claims[owner] > h.clock.Now() }

// claim records the owner for whom the node counts. The node must count for no other owner at that
// time.
func (h *history) claim(t *rapid.T, op wire.Op) {
	for _, owner := range owners {
		require.True(t, owner == op.Owner || !h.counts(owner), "the node counts for %s and for %s", owner, op.Owner)
	}
	until := h.clock.Now() + op.TTL
	if op.Kind == wire.Renew {
		until = max(until, h.claims[op.Owner])
	}
	h.claims[op.Owner] = until
}

func (h *history) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"pass":    h.pass,
		"acquire": h.acquire,
		"renew":   h.renew,
		"release": h.release,
		"another": h.neighbour,
	}
}

// checkOften checks a property that fails only once in some thousand histories.
func checkOften(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rounds := 50
	if testkit.Raced {
		rounds = 5 // each takes ten times as long, and runs the same code
	}
	for range rounds {
		rapid.Check(t, property)
	}
}

// The accepted tokens grow and the node counts for one owner at a time. Both hold for any number
// of losses.
func TestTokensGrowAcrossMemoryLosses(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		h := recall(t)
		actions := h.actions()
		actions["flush"] = func(*rapid.T) { h.node.Flush() }
		actions["crash"] = func(*rapid.T) { h.node.Crash() }
		actions["save"] = func(*rapid.T) { h.node.Save() }
		actions["inspect"] = func(*rapid.T) { h.do(wire.Op{Kind: wire.Inspect}) }
		actions["mark"] = func(*rapid.T) { h.do(wire.Op{Kind: wire.Mark}) }
		t.Repeat(actions)
	})
}

// The limits change for all clients at once. The node loses nothing, and the accepted tokens still
// grow.
func TestTokensGrowAcrossChangesOfLimits(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		h := recall(t)
		actions := h.actions()
		actions["restart"] = func(*rapid.T) {
			h.node.Save()
			h.node.Crash()
		}
		actions["limits"] = func(t *rapid.T) {
			ms := rapid.IntRange(0, 100)
			l := wire.Limits{
				MaxTTL:       time.Duration(1+ms.Draw(t, "MaxTTL")) * time.Millisecond,
				MaxClockSkew: time.Duration(ms.Draw(t, "MaxClockSkew")) * time.Millisecond,
			}
			if l != h.limits { // else it would just end the recovery
				h.open(l)
			}
		}
		t.Repeat(actions)
	})
}
