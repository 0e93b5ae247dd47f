// Package sizing calculates what follows from the settings of a client, for the tables in docs/.
package sizing

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/quorum"
)

// Sizes are what follows from one TTL, if it is also MaxTTL and all else has its default.
type Sizes struct {
	TTL time.Duration
	// Valid is how long a lease lasts from the sending of its last renewal that succeeded. A dead
	// holder's lock is free a TTL after the nodes got that.
	Valid time.Duration
	// Renewal is how far apart renewals are at most.
	Renewal time.Duration
	// NodeTimeout is how long one operation waits for one node at most.
	NodeTimeout time.Duration
	// Outage is how long all nodes may be away, at the worst moment, without any lease being lost.
	Outage time.Duration
	// Recovery is R: how long a node that has lost its memory gives nothing new.
	Recovery time.Duration
}

// Of calculates the sizes of a TTL.
func Of(ttl time.Duration) Sizes {
	s := Sizes{
		TTL:         ttl,
		Valid:       ttl - quorum.Drift(ttl),
		Renewal:     ttl / 3,
		NodeTimeout: min(500*time.Millisecond, ttl/10),
		Recovery:    quorumlock.Config{MaxTTL: ttl}.Limits().Recovery(),
	}
	// A renewal was just due when the nodes went away, the last retry before they are back goes unanswered,
	// and the next one, a sixth of the TTL later at most, has to be answered in time.
	s.Outage = s.Valid - s.Renewal - ttl/6 - 2*s.NodeTimeout
	return s
}

// TTLTable is a Markdown table of the sizes of TTLs.
func TTLTable(ttls ...time.Duration) string {
	var b strings.Builder
	b.WriteString("| TTL = MaxTTL | a dead holder's lock is free after | renewal interval | node timeout | longest outage of all nodes that a lease survives | recovery (R) | renewals per lease, node and minute, about |\n")
	b.WriteString("|---|---|---|---|---|---|---|\n")
	for _, ttl := range ttls {
		s := Of(ttl)
		fmt.Fprintf(&b, "| %v | %v to %v | %v | %v | %v | %v | %d |\n", s.TTL, short(s.TTL-s.Renewal), s.TTL, short(s.Renewal),
			short(s.NodeTimeout), short(s.Outage), s.Recovery, (time.Minute+s.Renewal-1)/s.Renewal)
	}
	return b.String()
}

// short leaves out what nobody plans with, and never says too much.
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

// NodesTable is a Markdown table of what numbers of nodes survive.
func NodesTable(numbers ...int) string {
	var b strings.Builder
	b.WriteString("| | nodes | must agree | nodes that may be down | nodes that may lose your lock without notice, while it stays exclusive |\n")
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
