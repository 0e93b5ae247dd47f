package main

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// someStatus is a lock that is held on all of five nodes but one, which does not answer.
func someStatus() *quorumlock.Status {
	s := &quorumlock.Status{Names: []string{"job"}, Need: 3}
	for i := range 5 {
		n := quorumlock.NodeStatus{Node: fmt.Sprintf("10.0.0.%d:6379", i+1), Latency: 300 * time.Microsecond}
		if i == 4 {
			n.Err = &node.Error{Node: n.Node, Reason: node.ErrTimeout}
		} else {
			n.Holders = []node.Holder{{Name: "job", Owner: "4f2c9a7be01d5386:17", Token: 1763757600000000, TTL: 9 * time.Second}}
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// BenchmarkStatus sums up what five nodes said about each of ten locks, and prints it.
func BenchmarkStatus(b *testing.B) {
	for by, print := range map[string]func(io.Writer, statusReport) error{"table": printTables, "json": printJSON} {
		b.Run("by="+by, func(b *testing.B) {
			b.ReportAllocs()
			status := someStatus()
			for b.Loop() {
				var report statusReport
				for range 10 {
					report.Locks = append(report.Locks, newLockReport("job", status))
				}
				require.Equal(b, stateHeld, report.Locks[9].State)
				require.NoError(b, print(io.Discard, report))
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
