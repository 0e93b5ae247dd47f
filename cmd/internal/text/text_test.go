package text

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1:                                "1ms",
		999 * time.Millisecond:           "999ms",
		time.Second:                      "1s",
		time.Second + 1:                  "1.1s",
		10*time.Second + 950000001:       "11s",
		9*time.Second + 123456789:        "9.2s",
		90*time.Second - time.Nanosecond: "1m30s",
	} {
		assert.Equal(t, want, Span(d), d)
	}
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		assert.Equal(t, want, Enumerated(words))
	}
}

// TestNothingFromServersReachesTheTerminalRaw: owners and errors come from servers, and reach terminals.
func TestNothingFromServersReachesTheTerminalRaw(t *testing.T) {
	const evil = "\x1b[2J\nquorumlock: all is well\u202e"
	failure := &node.Error{Node: "n", Op: wire.Acquire.String(), Reason: node.ErrRejected, Err: errors.New(evil)}
	said := []quorumlock.NodeError{{Node: "n", Err: failure}}
	held := &quorumlock.HeldError{Name: "k", Owner: evil}
	for name, text := range map[string]string{
		"held":      Plain(held),
		"wrapped":   Plain(fmt.Errorf("no lock: %w", held)),
		"no quorum": Plain(&quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Nodes: said}),
		"lost":      Plain(&quorumlock.LostError{Names: []string{"k"}, Reason: "x", Nodes: said}),
		"of a node": OfNode(failure),
		"raw":       OfNode(errors.New(evil)),
		"waiting":   Reason(held),
	} {
		assert.NotContains(t, text, "\x1b", name)
		assert.NotContains(t, text, "\n", name)
		assert.NotContains(t, text, "\u202e", name)
		assert.Contains(t, text, `\x1b[2J`, name)
	}
}

func TestReasons(t *testing.T) {
	few := &quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Need: 3, Total: 5}
	assert.Equal(t, "no quorum: 0 of 5 nodes agreed, 3 needed", Reason(few))
	few.Names = []string{"j", "k"}
	assert.Equal(t, "no quorum: 0 of 5 nodes agreed, 3 needed", Reason(few))
	assert.Equal(t, "held by o for another 1s unless renewed", Reason(&quorumlock.HeldError{Name: "k", Owner: "o", TTL: time.Second}))
	assert.Equal(t, "x", Reason(errors.New("x")))
	assert.Equal(t, `"k" is held by "k,forged", without expiry`, Plain(&quorumlock.HeldError{Name: "k", Owner: "k,forged", TTL: node.NoExpiry}))
}

func TestAdvice(t *testing.T) {
	recovering := &node.Error{Node: "n", Op: wire.Acquire.String(), Reason: node.ErrRecovering, Err: &node.RecoveryError{Left: 9123 * time.Millisecond, Length: 11 * time.Second}}
	differing := &node.Error{Node: "n", Op: wire.Acquire.String(), Reason: node.ErrSettings, Err: &node.SettingsError{
		Own: node.Limits{MaxTTL: time.Second}, Other: node.Limits{MaxTTL: 2 * time.Second}, Holder: "web/7",
	}}
	early := &node.Error{Node: "n", Op: wire.Acquire.String(), Reason: node.ErrClock, Err: &node.ClockError{Ahead: 3 * time.Second, Limit: time.Second}}
	few := func(errs ...error) error {
		e := &quorumlock.NoQuorumError{Op: "acquire", Names: []string{"k"}, Need: 2, Total: 3}
		for _, err := range errs {
			e.Nodes = append(e.Nodes, quorumlock.NodeError{Node: "n", Err: err})
		}
		return e
	}
	const head = "no quorum: 0 of 3 nodes agreed, 2 needed "
	assert.Equal(t, head+"(n, n: acquire: recovering: for another 9.2s)", Reason(few(recovering, recovering)))
	assert.Contains(t, Advice(few(early, recovering)), "'quorumlock init'")
	assert.Contains(t, Reason(few(differing)), head+"(n: acquire: settings differ: this program has --max-ttl 1s, --max-clock-skew 0s and --recovery 1s, and web/7 has --max-ttl 2s")
	assert.Contains(t, Reason(few(early)), "1s (--max-clock-skew)")
	assert.Empty(t, Advice(few(early)))
	assert.Empty(t, Advice(&quorumlock.HeldError{}))

	// An uncounted renewal is no reason to open nodes.
	uncounted := &node.Error{Node: "n", Op: wire.Renew.String(), Reason: node.ErrRecovering, Err: errors.New("x")}
	assert.Empty(t, Advice(&quorumlock.LostError{Nodes: []quorumlock.NodeError{{Node: "n", Err: uncounted}}}))
}
