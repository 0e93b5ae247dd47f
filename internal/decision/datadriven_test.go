package decision_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

// TestScripts replays the scripts in testdata. After a deliberate change, `go test ./internal/decision -run
// TestScripts -rewrite` writes the new results; review them in the diff.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			command, ok := map[string]func(*testing.T, *datadriven.TestData) string{
				"round":    s.round,
				"votes":    s.votes,
				"drift":    s.drift,
				"lease":    s.lease,
				"confirm":  s.confirm,
				"forget":   s.forget,
				"at":       s.at,
				"schedule": s.schedule,
				"denied":   s.denied,
				"backoff":  s.backoff,
			}[d.Cmd]
			if !ok {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return command(t, d)
		})
	})
}

// script is the state that one file builds up.
type script struct {
	tally    decision.Tally
	ttl      time.Duration
	need     int
	expiries []time.Duration
}

// round nodes=N rule=majority|all|Q begins a round.
func (s *script) round(t *testing.T, d *datadriven.TestData) string {
	n, rule := number(t, d, "nodes"), ruleOf(t, d)
	if err := rule.Validate(n); err != nil {
		return err.Error()
	}
	s.tally = decision.NewTally(n, rule.Need(n))
	return s.state()
}

// votes takes a node and its vote in each line.
func (s *script) votes(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		var node int
		var name string
		_, err := fmt.Sscan(line, &node, &name)
		require.NoError(t, err, d.Pos)
		if !s.tally.Record(node, voteOf(t, name)) {
			fmt.Fprintf(&out, "node %d %s: not counted, it stays %s\n", node, name, s.tally.Vote(node))
			continue
		}
		fmt.Fprintf(&out, "node %d %s: %s\n", node, name, s.state())
	}
	return out.String()
}

func (s *script) state() string {
	state := fmt.Sprintf("%s => %s", &s.tally, s.tally.Result())
	if s.tally.Blocked() {
		state += ", blocked"
	}
	return state
}

// drift takes a TTL in each line.
func (s *script) drift(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		ttl := duration(t, strings.TrimSpace(line))
		fmt.Fprintf(&out, "ttl %s: drift %s, sent at 1m0s it expires at %s\n", ttl, decision.Drift(ttl), decision.Expiry(time.Minute, ttl))
	}
	return out.String()
}

// lease nodes=N rule=R ttl=D begins a lease without claims.
func (s *script) lease(t *testing.T, d *datadriven.TestData) string {
	n, rule := number(t, d, "nodes"), ruleOf(t, d)
	require.NoError(t, rule.Validate(n), d.Pos)
	s.ttl, s.need = durationArg(t, d, "ttl"), rule.Need(n)
	s.expiries = make([]time.Duration, n)
	return s.claims()
}

// confirm sent=D takes the nodes that confirmed an operation sent at D.
func (s *script) confirm(t *testing.T, d *datadriven.TestData) string {
	sent := durationArg(t, d, "sent")
	for _, node := range nodes(t, d) {
		s.expiries[node] = decision.Expiry(sent, s.ttl)
	}
	return s.claims()
}

// forget takes the nodes whose claims are dropped.
func (s *script) forget(t *testing.T, d *datadriven.TestData) string {
	for _, node := range nodes(t, d) {
		s.expiries[node] = 0
	}
	return s.claims()
}

func (s *script) claims() string {
	return fmt.Sprintf("claims until %v: valid until %s", s.expiries, decision.ValidUntil(s.expiries, s.need))
}

// at takes an instant in each line.
func (s *script) at(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		now := duration(t, strings.TrimSpace(line))
		state := "over"
		if now < decision.ValidUntil(s.expiries, s.need) {
			state = "valid"
		}
		fmt.Fprintf(&out, "%s: %s, %d claims behind it\n", now, state, decision.Backing(s.expiries, now))
	}
	return out.String()
}

// schedule ttl=D jitter=F renews a lease that a quorum confirmed at 0 and never again, until it
// ends.
func (s *script) schedule(t *testing.T, d *datadriven.TestData) string {
	var jitter float64
	d.ScanArgs(t, "jitter", &jitter)
	ttl := durationArg(t, d, "ttl")
	until := decision.Expiry(0, ttl)
	var out strings.Builder
	sent := time.Duration(0)
	for failed := 0; ; failed++ {
		next := decision.NextRenewal(sent, ttl, failed, jitter)
		if next >= until {
			fmt.Fprintf(&out, "%s: the lease is over, after %d failures\n", until, failed)
			return out.String()
		}
		fmt.Fprintf(&out, "%s: sent, %s after the last\n", next, next-sent)
		sent = next
	}
}

// denied free=F need=Q takes the TTL from each denial.
func (s *script) denied(t *testing.T, d *datadriven.TestData) string {
	var told []time.Duration
	for field := range strings.FieldsSeq(d.Input) {
		told = append(told, duration(t, field))
	}
	after := decision.FreeAfter(told, number(t, d, "free"), number(t, d, "need"))
	if after == largest {
		return "never"
	}
	return "expected free after " + after.String()
}

// backoff least=D most=D attempts=N shows the bounds of each wait.
func (s *script) backoff(t *testing.T, d *datadriven.TestData) string {
	least, most := durationArg(t, d, "least"), durationArg(t, d, "most")
	var out strings.Builder
	for attempt := range number(t, d, "attempts") {
		wait := func(jitter float64) time.Duration { return decision.Backoff(attempt, least, most, jitter) }
		fmt.Fprintf(&out, "attempt %d: from %s to %s, %s on average\n", attempt, wait(0), wait(1), wait(0.5))
	}
	return out.String()
}

func ruleOf(t *testing.T, d *datadriven.TestData) quorum.Rule {
	var name string
	d.ScanArgs(t, "rule", &name)
	switch name {
	case "majority":
		return quorum.Majority()
	case "all":
		return quorum.All()
	default:
		return quorum.AtLeast(number(t, d, "rule"))
	}
}

func voteOf(t *testing.T, name string) decision.Vote {
	for _, v := range votes {
		if v.String() == name {
			return v
		}
	}
	require.FailNow(t, "no such vote", name)
	return decision.Missing
}

func nodes(t *testing.T, d *datadriven.TestData) (nodes []int) {
	for field := range strings.FieldsSeq(d.Input) {
		var node int
		_, err := fmt.Sscan(field, &node)
		require.NoError(t, err, d.Pos)
		nodes = append(nodes, node)
	}
	return nodes
}

func number(t *testing.T, d *datadriven.TestData, key string) (n int) {
	d.ScanArgs(t, key, &n)
	return n
}

func durationArg(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	var text string
	d.ScanArgs(t, key, &text)
	return duration(t, text)
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}
