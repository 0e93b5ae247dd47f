package main

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// someFacts describe a lock that is held on four of five nodes. The fifth does not answer.
func someFacts() *watch.Facts {
	facts := &watch.Facts{Names: []string{"job"}, Whole: true}
	for i := range 5 {
		n := watch.Node{Name: fmt.Sprintf("10.0.0.%d:6379", i+1), Latency: 300 * time.Microsecond}
		if i == 4 {
			n.Err = &node.Error{Node: n.Name, Reason: node.ErrTimeout}
		} else {
			n.Locks = map[string]watch.Lock{"job": held("job", "4f2c9a7be01d5386:17", 9*time.Second, 1763757600000000)}
		}
		facts.Nodes = append(facts.Nodes, n)
	}
	return facts
}

// BenchmarkStatus sums up what five nodes said about each of ten locks, and prints it.
func BenchmarkStatus(b *testing.B) {
	table := func(r *statusReport) { _ = r.text() }
	inJSON := func(r *statusReport) { require.NoError(b, printJSON(io.Discard, r)) }
	for by, print := range map[string]func(*statusReport){"table": table, "json": inJSON} {
		b.Run("by="+by, func(b *testing.B) {
			b.ReportAllocs()
			facts, keys := someFacts(), slices.Repeat([]string{"job"}, 10)
			for b.Loop() {
				report := newStatusReport(noon, facts, keys)
				require.Equal(b, stateHeld, report.Locks[9].State)
				print(report)
			}
		})
	}
}

// BenchmarkTimeline prints an event of the demo.
func BenchmarkTimeline(b *testing.B) {
	for _, colour := range []bool{false, true} {
		b.Run(fmt.Sprintf("colour=%t", colour), func(b *testing.B) {
			b.ReportAllocs()
			t := newTimeline(io.Discard)
			t.colour = colour
			for b.Loop() {
				t.tell("A", colourA, "has the lock with token %d", 17)
			}
		})
	}
}
