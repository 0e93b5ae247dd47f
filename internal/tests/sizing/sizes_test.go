package sizing_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
	"github.com/quorumlock/quorumlock/quorum"
)

// sizes are the times that follow from one TTL, if MaxTTL equals it and all other settings are defaults.
type sizes struct {
	TTL time.Duration
	// Valid is how long a lease lasts after its last successful renewal was sent. The lock of a dead holder is free
	// one TTL after the nodes received that renewal.
	Valid time.Duration
	// Renewal is the longest time between two renewals.
	Renewal time.Duration
	// NodeTimeout is the longest time that one operation waits for one node.
	NodeTimeout time.Duration
	// Outage is the longest outage of all nodes that every lease survives, even at the worst moment.
	Outage time.Duration
	// Recovery is R: how long a node that lost its memory grants nothing new.
	Recovery time.Duration
}

func sizesOf(ttl time.Duration) sizes {
	s := sizes{
		TTL:         ttl,
		Valid:       ttl - decision.Drift(ttl),
		Renewal:     ttl / 3,
		NodeTimeout: min(500*time.Millisecond, ttl/10),
		Recovery:    quorumlock.Config{MaxTTL: ttl}.Limits().Recovery(),
	}
	// The worst case: a renewal is just due when the outage begins, and the last retry in the outage goes unanswered.
	// The next retry comes at most a sixth of the TTL later, and must be answered in time.
	s.Outage = s.Valid - s.Renewal - ttl/6 - 2*s.NodeTimeout
	return s
}

// ttlTable returns a Markdown table of the sizes of TTLs.
func ttlTable(ttls ...time.Duration) string {
	var b strings.Builder
	b.WriteString("| TTL = MaxTTL | a dead holder's lock is free after | renewal interval | node timeout | longest outage of all nodes that a lease survives | recovery (R) | renewals per lease, node and minute, about |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, ttl := range ttls {
		s := sizesOf(ttl)
		fmt.Fprintf(&b, "| %v | %v to %v | %v | %v | %v | %v | %d |\n", s.TTL, short(s.TTL-s.Renewal), s.TTL, short(s.Renewal),
			short(s.NodeTimeout), short(s.Outage), s.Recovery, (time.Minute+s.Renewal-1)/s.Renewal)
	}
	return b.String()
}

// short rounds down to a precision that is useful for planning.
func short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Truncate(time.Second)
	case d >= time.Second:
		return d.Truncate(100 * time.Millisecond)
	default:
		return d.Truncate(time.Millisecond)
	}
}

// nodesTable returns a Markdown table of the failures that numbers of nodes survive.
func nodesTable(numbers ...int) string {
	var b strings.Builder
	b.WriteString("| | nodes | must agree | may be down | may forget your lock unnoticed |\n")
	b.WriteString("|---|---|---|---|---|\n")
	for _, kind := range []struct {
		name string
		rule quorum.Rule
	}{{"RedLock", quorum.Majority()}, {"MultiLock", quorum.All()}} {
		for _, n := range numbers {
			need := kind.rule.Need(n)
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", kind.name, n, need, n-need, need-1)
		}
	}
	return b.String()
}
