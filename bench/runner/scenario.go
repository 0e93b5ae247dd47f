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
	// Goals. A run for the document has the matrices of Document and Goals.
	Full, Quick, Goals, Document []Matrix
	// Held is the number of leases that each process holds beside the load, if the peer renews leases.
	Held int
	// Settle is the time that the load runs before measuring begins.
	Settle time.Duration
	// TTL is the time after which nodes drop a lock that is not renewed.
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
	kinds     = []string{"semaphore", "rwlock-readers", "rwlock-mixed", "latch", "join", "striped"}
	everybody = []string{
		"redlock", "multilock", "floor", "floor-group", "redsync", "redislock-1node",
		"redisson-redlock", "redisson-multilock", "redisson-1node",
	}
)

const (
	usualTTL = 10 * time.Second
	shortTTL = time.Second
	longTTL  = time.Minute // nothing that is held is renewed meanwhile
	settle   = 200 * time.Millisecond
)

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
				{Peers: []string{"redlock", "floor"}},
				{Peers: []string{"redsync"}, Sizes: in(1, 128)},
			},
			Document: []Matrix{{Peers: []string{"redlock", "floor", "floor-group", "redsync"}}},
			Settle:   settle, TTL: usualTTL,
		},
		{
			Name: "newnames", Title: "Locks with a new name each time",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "floor-group", "redsync"}, Sizes: in(1, 1, 16, 128, 1024), Loads: []cell.Load{cell.NewNames},
			}},
			Quick:    []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 128)}},
			Goals:    []Matrix{{Peers: []string{"redlock", "floor"}, Sizes: in(1, 16, 128)}},
			Document: []Matrix{{}},
			Settle:   settle, TTL: usualTTL,
		},
		{
			Name: "zipf", Title: "A million names, of which some are frequent",
			Full: []Matrix{{
				Peers: []string{"redlock", "nohandover", "queue", "redsync"}, Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Zipf},
			}},
			Quick:    []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 16)}},
			Document: []Matrix{{}},
			Settle:   settle, TTL: usualTTL,
		},
		{
			Name: "network", Title: "Over a network",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "redsync"}, Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Cycle},
				Faults: []Breakage{{Network: 500 * time.Microsecond}, {Network: 2 * time.Millisecond}},
			}},
			Quick:    []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 16), Faults: []Breakage{{Network: 2 * time.Millisecond}}}},
			Document: []Matrix{{}},
			Settle:   settle, TTL: usualTTL,
		},
		{
			Name: "contended", Title: "One lock that all callers want",
			Full: []Matrix{{
				Peers: contenders, Sizes: slices.Concat(in(1, 2, 16, 64), in(8, 16, 64)), Loads: []cell.Load{cell.Handoff}, Longer: 3,
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(8, 64), Longer: 1}},
			Settle: 500 * time.Millisecond, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "passes", Title: "One lock that goes from caller to caller",
			Full: []Matrix{{
				Peers: append([]string{"queue"}, contenders...), Sizes: slices.Concat(passSizes, in(1, 2, 16, 64)),
				Loads: []cell.Load{cell.Pass}, Longer: 3,
			}},
			Quick: []Matrix{{Peers: []string{"redlock", "nohandover", "redsync"}, Sizes: in(8, 64), Longer: 2}},
			Goals: []Matrix{
				{Peers: []string{"redlock", "queue"}, Sizes: passSizes},
				{Peers: []string{"nohandover", "redsync"}, Sizes: in(8, 64)},
			},
			Document: []Matrix{{Peers: []string{"redlock", "queue", "redsync"}, Sizes: passSizes}},
			Settle:   500 * time.Millisecond, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "faults", Title: "Nodes that hang, die, or are slow",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "floor-group", "redsync", "redisson-redlock"},
				Sizes: in(1, 16), Loads: []cell.Load{cell.Cycle},
				Faults: []Breakage{
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
				Peers: []string{"redlock"}, Faults: []Breakage{{}, {Fault: cluster.Hung, Bad: 1}, {Fault: cluster.Killed, Bad: 1}},
				Longer: 1,
			}},
			Goals: []Matrix{{
				Peers:  []string{"redlock"},
				Faults: []Breakage{{}, {Fault: cluster.Hung, Bad: 1}, {Fault: cluster.Killed, Bad: 2}, {Fault: cluster.Slow, Bad: 1}},
			}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "recovery", Title: "A node that comes back without its memory",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "redsync"}, Sizes: in(1, 16), Loads: []cell.Load{cell.Cycle},
				Faults: []Breakage{{}, {Fault: cluster.Restarted, Bad: 1}}, Longer: 4, AtLeast: 4 * time.Second,
			}},
			Quick: []Matrix{{
				Peers: []string{"redlock"}, Faults: []Breakage{{Fault: cluster.Restarted, Bad: 1}}, AtLeast: 3 * time.Second,
			}},
			Settle: settle, TTL: shortTTL, Held: 100,
		},
		{
			Name: "waiters", Title: "What waiting costs",
			Full: []Matrix{
				{Peers: contenders, Sizes: []Size{{200, 1}, {200, 8}}, Loads: []cell.Load{cell.Wait}, Longer: 2},
				{Peers: []string{"redlock", "redsync"}, Sizes: in(200, 200)},
			},
			Quick:    []Matrix{{Peers: []string{"redlock", "redsync"}, Sizes: in(1, 200)}},
			Goals:    []Matrix{{Peers: []string{"redlock"}, Sizes: []Size{{200, 1}, {200, 8}, {200, 200}}, Longer: 5}},
			Document: []Matrix{{Peers: []string{"redsync"}}},
			Settle:   time.Second, TTL: longTTL, Fixed: true,
		},
		{
			Name: "held", Title: "What holding costs",
			Full: []Matrix{{
				Peers: []string{"redlock", "multilock"}, Sizes: in(1, 10_000, 100_000), Loads: []cell.Load{cell.Hold}, Longer: 5,
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 10_000)}},
			Goals:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 100_000)}},
			Settle: time.Second, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "nodes", Title: "The number of nodes",
			Full: []Matrix{{
				Peers: []string{"redlock", "floor", "floor-group", "redsync"}, Sizes: in(1, 128),
				Nodes: []int{1, 3, 5, 7, 9}, Loads: []cell.Load{cell.Cycle},
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Nodes: []int{9}}},
			Goals:  []Matrix{{Peers: []string{"redlock"}}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "kinds", Title: "Other kinds of locks, free",
			Full:   []Matrix{{Peers: append([]string{"redlock"}, kinds...), Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Cycle}}},
			Quick:  []Matrix{{Peers: []string{"semaphore", "rwlock-mixed", "join"}, Sizes: in(1, 16)}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "kinds-contended", Title: "Other kinds of locks, contended",
			Full: []Matrix{{
				Peers: append([]string{"nohandover", "rwlock-writer"}, kinds...), Sizes: slices.Concat(in(1, 16, 64), in(8, 16, 64)),
				Loads: []cell.Load{cell.Handoff}, Longer: 2,
			}},
			Quick: []Matrix{{
				Peers: []string{"semaphore", "rwlock-mixed", "latch"}, Sizes: in(8, 16), AtLeast: 800 * time.Millisecond,
			}},
			Settle: 500 * time.Millisecond, TTL: usualTTL, Fixed: true,
		},
	}
}
