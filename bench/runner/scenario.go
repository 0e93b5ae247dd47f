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
	// About explains the scenario to readers of the report.
	About string
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
			About: "Each caller takes and gives back a lock of its own, again and again. An operation is an acquire and its release.",
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
			About: "As above, but no name is ever used twice, as by a service that locks an order or a file. Names leave nothing behind on the nodes.",
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
			About: "Each operation takes one of a million locks, by Zipf's law with exponent 1.01. The most frequent lock is wanted in 7 of 100 operations, so callers meet there, while most names are new. The floors do not wait, so they are left out.",
			Full: []Matrix{{
				Peers: []string{"redlock", "nohandover", "queue", "redsync"}, Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Zipf},
			}},
			Quick:    []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 16)}},
			Document: []Matrix{{}},
			Settle:   settle, TTL: usualTTL,
		},
		{
			Name: "network", Title: "Over a network",
			About: "Locks that are free, behind a proxy that holds everything up each way, for 0.5 or 2 ms. The proxies run on the same machine.",
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
			About: "All callers take and give back the same lock, and hold it for no time. The last holder asks again at once. The delay is from just before a release to the next grant; shares are the least and the most grants of a caller, relative to their mean.",
			Full: []Matrix{{
				Peers: contenders, Sizes: slices.Concat(in(1, 2, 16, 64), in(8, 16, 64)), Loads: []cell.Load{cell.Handoff}, Longer: 3,
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(8, 64), Longer: 1}},
			Settle: 500 * time.Millisecond, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "passes", Title: "One lock that goes from caller to caller",
			About: "A forced pass: as above, but the last holder asks again only after another caller held the lock.",
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
			About: "Locks that are free, again; when measuring begins, some of the nodes are stopped (SIGSTOP) or killed. A slow one takes 50 ms longer each way, from the start. The keys that are left are counted when the nodes are back and up to a TTL has passed.",
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
			About: "Locks that are free. When a quarter of the time has passed, a node is killed, and restarted at once. It has forgotten its locks, so this library takes none from it until those have expired: after MaxTTL + MaxClockSkew, which is 1.5 s here, with a TTL of 1 s. Other peers take locks from it at once, even locks that are still held. Beside the load, 100 leases are held where the peer renews them; none should be lost. The other nodes are a majority, so no caller should have to wait; pause is the longest time in which no operation ended.",
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
			About: "200 callers wait for a lock that another process holds all the time. What counts is how many commands a second that costs each node. This library asks for all that wait in one process together.",
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
			About: "Leases that are held and renew themselves. What counts is memory, goroutines, and how many commands it takes to renew.",
			Full: []Matrix{{
				Peers: []string{"redlock", "multilock"}, Sizes: in(1, 10_000, 100_000), Loads: []cell.Load{cell.Hold}, Longer: 5,
			}},
			Quick:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 10_000)}},
			Goals:  []Matrix{{Peers: []string{"redlock"}, Sizes: in(1, 100_000)}},
			Settle: time.Second, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "nodes", Title: "The number of nodes",
			About: "Locks that are free, on more and more nodes. The cost of an operation should grow no faster than they do.",
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
			About:  "What semaphores, locks for readers and writers, latches, joined locks and stripes cost, beside the plain lock: each caller has one of its own.",
			Full:   []Matrix{{Peers: append([]string{"redlock"}, kinds...), Sizes: in(1, 1, 16, 128), Loads: []cell.Load{cell.Cycle}}},
			Quick:  []Matrix{{Peers: []string{"semaphore", "rwlock-mixed", "join"}, Sizes: in(1, 16)}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "kinds-contended", Title: "Other kinds of locks, contended",
			About: "All callers want one lock of the kind, and hold it for no time. Violations are more holders of a semaphore than it has permits, any holder beside a writer, two holders of a stripe, and callers that a latch lets go before all have come. Each lease is given back to the nodes, and none handed over within a client, as with the plain lock beside them.",
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
