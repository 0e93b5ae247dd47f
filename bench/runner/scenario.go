package runner

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Scenario is a question, and the cells that answer it.
type Scenario struct {
	Name  string
	Title string
	// Full is the complete list. A quick run has the matrices of Quick instead, and a run for the goals the matrices of
	// Goals, which also are what docs/benchmarks.md shows.
	Full, Quick, Goals []Matrix
	// Settle is the time that the load runs before measuring begins, 200 ms by default.
	Settle time.Duration
	// TTL is the time after which nodes drop a lock that is not renewed, 10 s by default.
	TTL time.Duration
	// Fixed keeps flags from changing the numbers of callers.
	Fixed bool
}

var (
	// contenders are the peers that can wait for a lock.
	contenders = []string{
		"redlock", "nohandover", "multilock", "redsync", "redislock-1node",
		"redisson-redlock", "redisson-multilock", "redisson-1node",
	}
	// kinds are the kinds of locks of this library, beside the plain one.
	kinds     = []string{"semaphore", "rwlock-readers", "rwlock-mixed", "latch", "join", "striped", "kinds"}
	everybody = []string{
		"redlock", "multilock", "floor", "floor-all", "floor-group", "redsync", "redislock-1node",
		"redisson-redlock", "redisson-multilock", "redisson-1node",
	}
)

const longTTL = time.Minute // nothing that is held is renewed meanwhile

// passSizes are the sizes of a forced pass between processes.
var passSizes = []Size{{2, 2}, {16, 8}, {64, 8}}

// Scenarios returns all scenarios, in the order of the report.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "uncontended", Title: "Locks that are free",
			Full:  []Matrix{{Peers: everybody, Sizes: in(1, 1, 16, 128, 1024), Loads: []cell.Load{cell.Cycle}}},
			Quick: []Matrix{{Peers: []string{"redlock", "floor", "redsync"}, Sizes: in(1, 128)}},
			Goals: []Matrix{
				{Peers: []string{"redlock", "floor"}, Sizes: in(1, 16, 128, 1024)},
				{Peers: []string{"redsync"}, Sizes: in(1, 128)},
			},
		},
		{
			Name: "newnames", Title: "Locks with a new name each time",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "floor-group", "redsync"}, Sizes: in(1, 1, 16, 128, 1024), Loads: []cell.Load{cell.NewNames},
			}},
			Quick: []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 128)}},
			Goals: []Matrix{{}, {Peers: []string{"multilock", "floor-all"}, Sizes: in(1, 1)}},
		},
		{
			Name: "overload", Title: "More callers than can be served in time",
			Full: []Matrix{
				{Peers: []string{"redlock", "redsync"}, Sizes: in(1, 64), Loads: []cell.Load{cell.NewNames}, Longer: 2},
				{Sizes: in(1, 512), Conditions: []Condition{{Patience: 10 * time.Millisecond}}},
				{Sizes: in(1, 4096), Conditions: []Condition{{Patience: 50 * time.Millisecond}}},
			},
			Quick: []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 512), Conditions: []Condition{{Patience: 10 * time.Millisecond}}}},
			Goals: []Matrix{
				{Peers: []string{"redlock"}},
				{Peers: []string{"redlock"}, Sizes: in(1, 512), Conditions: []Condition{{Patience: 10 * time.Millisecond}}},
				{Peers: []string{"redlock"}, Sizes: in(1, 4096), Conditions: []Condition{{Patience: 50 * time.Millisecond}}},
			},
			Settle: time.Second, Fixed: true,
		},
		{
			Name: "zipf", Title: "A million names, of which some are frequent",
			Full: []Matrix{{
				Peers: []string{"redlock", "nohandover", "queue", "redsync"}, Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Zipf},
			}},
			Quick: []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 16)}},
			Goals: []Matrix{{Peers: []string{"redlock", "queue", "redsync"}, Sizes: in(1, 16, 128)}},
		},
		{
			Name: "network", Title: "Over a network",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "redsync"}, Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Cycle},
				Conditions: []Condition{{Network: 500 * time.Microsecond}, {Network: 2 * time.Millisecond}},
			}},
			Quick: []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 16), Conditions: []Condition{{Network: 2 * time.Millisecond}}}},
			Goals: []Matrix{{Sizes: in(1, 1, 128)}},
		},
		{
			Name: "contended", Title: "One lock that all callers want",
			Full: []Matrix{{
				Peers: contenders, Sizes: slices.Concat(in(1, 2, 16, 64), in(8, 16, 64)), Loads: []cell.Load{cell.Handoff}, Longer: 3,
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(8, 64), Longer: 1}},
			Settle: 500 * time.Millisecond, Fixed: true,
		},
		{
			Name: "passes", Title: "One lock that goes from caller to caller",
			Full: []Matrix{{
				Peers: append([]string{"queue"}, contenders...), Sizes: slices.Concat(passSizes, in(1, 2, 16, 64)),
				Loads: []cell.Load{cell.Pass}, Longer: 3,
			}},
			Quick: []Matrix{{Peers: []string{"redlock", "nohandover", "redsync"}, Sizes: in(8, 64), Longer: 2}},
			Goals: []Matrix{
				{Peers: []string{"redlock", "queue", "redsync"}, Sizes: passSizes},
				{Peers: []string{"nohandover"}, Sizes: in(8, 64)},
			},
			Settle: 500 * time.Millisecond, Fixed: true,
		},
		{
			Name: "faults", Title: "Nodes that hang, die, or are slow",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "floor-group", "redsync", "redisson-redlock"},
				Sizes: in(1, 16), Loads: []cell.Load{cell.Cycle},
				Conditions: []Condition{
					{},
					{Fault: cluster.Hung, Bad: 1},
					{Fault: cluster.Hung, Bad: 2},
					{Fault: cluster.Killed, Bad: 1},
					{Fault: cluster.Killed, Bad: 2},
					{Fault: cluster.Slow, Bad: 1},
				},
				Longer: 6, // with a node that hangs, redsync takes ten seconds for an operation
			}},
			Quick: []Matrix{{
				Peers: []string{"redlock"}, Conditions: []Condition{{}, {Fault: cluster.Hung, Bad: 1}, {Fault: cluster.Killed, Bad: 1}},
				Longer: 1,
			}},
			Goals: []Matrix{{
				Peers:      []string{"redlock"},
				Conditions: []Condition{{}, {Fault: cluster.Hung, Bad: 1}, {Fault: cluster.Killed, Bad: 2}, {Fault: cluster.Slow, Bad: 1}},
				Longer:     3,
			}},
		},
		{
			Name: "waiters", Title: "What waiting costs",
			Full: []Matrix{
				{Peers: contenders, Sizes: []Size{{200, 1}, {200, 8}}, Loads: []cell.Load{cell.Wait}, Longer: 2},
				{Peers: []string{"redlock", "redsync"}, Sizes: in(200, 200)},
				{Peers: []string{"redlock", "redsync"}, Sizes: in(1, 1000), Loads: []cell.Load{cell.WaitApart}},
			},
			Quick: []Matrix{
				{Peers: []string{"redlock", "redsync"}, Sizes: in(1, 200)},
				{Peers: []string{"redlock"}, Sizes: in(1, 1000), Loads: []cell.Load{cell.WaitApart}},
			},
			Goals: []Matrix{
				{Peers: []string{"redlock"}, Sizes: []Size{{200, 1}, {200, 8}, {200, 200}}, Longer: 5},
				{Peers: []string{"redlock"}, Sizes: in(1, 1000), Loads: []cell.Load{cell.WaitApart}, Longer: 5},
				{Peers: []string{"redsync"}, Sizes: in(1, 200)},
			},
			Settle: time.Second, TTL: longTTL, Fixed: true,
		},
		{
			Name: "denials", Title: "Attempts at what another process holds",
			Full: []Matrix{{
				Peers: []string{"redlock", "full-16", "full-128", "full-1024"}, Sizes: in(1, 1, 16), Loads: []cell.Load{cell.Deny},
			}},
			Quick: []Matrix{{Peers: []string{"redlock", "full-16"}, Sizes: in(1, 16)}},
			Goals: []Matrix{{Sizes: in(1, 16)}},
			TTL:   longTTL, Fixed: true,
		},
		{
			Name: "held", Title: "What holding costs",
			Full: []Matrix{{
				Peers: []string{"redlock", "multilock"}, Sizes: in(1, 10_000, 100_000), Loads: []cell.Load{cell.Hold}, Longer: 5,
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 10_000)}},
			Goals:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 100_000)}},
			Settle: time.Second, Fixed: true,
		},
		{
			Name: "nodes", Title: "The number of nodes",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "floor-group", "redsync"}, Sizes: in(1, 128),
				Nodes: []int{1, 3, 5, 7, 9}, Loads: []cell.Load{cell.Cycle},
			}},
			Quick: []Matrix{{Peers: []string{"redlock"}, Nodes: []int{9}}},
			Goals: []Matrix{{Peers: []string{"redlock"}}},
		},
		{
			Name: "kinds", Title: "Other kinds of locks, free",
			Full:  []Matrix{{Peers: append([]string{"redlock"}, kinds...), Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Cycle}}},
			Quick: []Matrix{{Peers: kinds, Sizes: in(1, 16)}},
			Goals: []Matrix{{Peers: []string{"redlock", "semaphore", "rwlock-readers", "kinds"}, Sizes: in(1, 128)}},
		},
		{
			Name: "kinds-contended", Title: "Other kinds of locks, contended",
			Full: []Matrix{{
				Peers: []string{"nohandover", "rwlock-writer", "semaphore", "rwlock-readers", "rwlock-mixed", "join"},
				Sizes: slices.Concat(in(1, 16, 64), in(8, 16, 64)), Loads: []cell.Load{cell.Handoff}, Longer: 2,
			}},
			Quick: []Matrix{{
				Peers: []string{"semaphore", "rwlock-mixed"}, Sizes: in(8, 16), AtLeast: 800 * time.Millisecond,
			}},
			Settle: 500 * time.Millisecond, Fixed: true,
		},
	}
}
