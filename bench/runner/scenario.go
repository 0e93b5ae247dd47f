package runner

import (
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Scenario is a question, and the cells that answer it: those that the goals need, and those of other libraries to
// compare with. docs/benchmarks.md shows them all.
type Scenario struct {
	Name  string
	Title string
	Cells []Matrix
	// Settle is the time that the load runs before measuring begins, 200 ms by default.
	Settle time.Duration
	// TTL is the time after which nodes drop a lock that is not renewed, 10 s by default.
	TTL time.Duration
}

const longTTL = time.Minute // nothing that is held is renewed meanwhile

// healthy is the condition in which all nodes are well, and callers are patient.
var healthy = Condition{}

// Scenarios returns all scenarios, in the order of the report.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "uncontended", Title: "Locks that are free",
			Cells: []Matrix{
				{Peers: []string{"redlock", "floor"}, Sizes: in(1, 1, 16, 128, 1024), Loads: []cell.Load{cell.Cycle}},
				{Peers: []string{"redsync"}, Sizes: in(1, 1, 128)},
			},
		},
		{
			Name: "newnames", Title: "Locks with a new name each time",
			Cells: []Matrix{
				{Peers: []string{"redlock", "floor", "floor-group", "redsync"}, Sizes: in(1, 1, 16, 128, 1024), Loads: []cell.Load{cell.NewNames}},
				{Peers: []string{"multilock", "floor-all"}, Sizes: in(1, 1)},
			},
		},
		{
			Name: "overload", Title: "More callers than can be served in time",
			Cells: []Matrix{
				{Peers: []string{"redlock"}, Sizes: in(1, 64), Loads: []cell.Load{cell.NewNames}, Longer: 2},
				{Sizes: in(1, 512), Conditions: []Condition{{Patience: 10 * time.Millisecond}}},
				{Sizes: in(1, 4096), Conditions: []Condition{{Patience: 50 * time.Millisecond}}},
			},
			Settle: time.Second,
		},
		{
			Name: "passes", Title: "One lock that goes from caller to caller",
			Cells: []Matrix{
				{
					Peers: []string{"redlock", "queue", "redsync"}, Sizes: []Size{{16, 8}, {2, 2}, {64, 8}},
					Loads: []cell.Load{cell.Pass}, Longer: 3,
				},
				{Peers: []string{"nohandover"}, Sizes: in(8, 64)},
			},
			Settle: 500 * time.Millisecond,
		},
		{
			Name: "faults", Title: "Nodes that hang, die, or are slow",
			Cells: []Matrix{
				{
					Peers: []string{"redlock"}, Sizes: in(1, 16), Loads: []cell.Load{cell.Cycle},
					Conditions: []Condition{
						healthy, {Fault: cluster.Hung, Bad: 1}, {Fault: cluster.Killed, Bad: 2}, {Fault: cluster.Slow, Bad: 1},
					},
					Longer: 3,
				},
				{
					Peers: []string{"redsync"}, Conditions: []Condition{healthy, {Fault: cluster.Hung, Bad: 1}},
					Longer: 6, // with a node that hangs, redsync takes ten seconds for an operation
				},
			},
		},
		{
			Name: "waiters", Title: "What waiting costs",
			Cells: []Matrix{
				{Peers: []string{"redlock"}, Sizes: []Size{{200, 1}, {200, 8}, {200, 200}}, Loads: []cell.Load{cell.Wait}, Longer: 5},
				{Sizes: in(1, 1000), Loads: []cell.Load{cell.WaitApart}},
				{Peers: []string{"redsync"}, Sizes: in(1, 200), Longer: 2},
			},
			Settle: time.Second, TTL: longTTL,
		},
		{
			Name: "denials", Title: "Attempts at what another process holds",
			Cells: []Matrix{{Peers: []string{"redlock", "full-16", "full-128", "full-1024"}, Sizes: in(1, 16), Loads: []cell.Load{cell.Deny}}},
			TTL:   longTTL,
		},
		{
			Name: "held", Title: "What holding costs",
			Cells:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 100_000), Loads: []cell.Load{cell.Hold}, Longer: 5}},
			Settle: time.Second,
		},
		{
			Name: "nodes", Title: "The number of nodes",
			Cells: []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 128), Nodes: []int{1, 3, 5, 7, 9}, Loads: []cell.Load{cell.Cycle}}},
		},
		{
			Name: "kinds", Title: "Other kinds of locks, free",
			Cells: []Matrix{{Peers: []string{"redlock", "semaphore", "rwlock-readers", "kinds"}, Sizes: in(1, 128), Loads: []cell.Load{cell.Cycle}}},
		},
	}
}
