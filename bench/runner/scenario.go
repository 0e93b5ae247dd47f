package runner

import (
	"cmp"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Scenario is a question, and the cells that answer it.
type Scenario struct {
	Name  string
	Title string
	// About says what is done, and what to look at, to readers of the report.
	About string
	// Full is all that is measured. In a quick run, what is said in Quick replaces it; in one for
	// the goals, what each of Goals says, and nothing is measured if there are none.
	Full, Quick Matrix
	Goals       []Matrix
	// Held is how many leases each process holds beside the load, where the peer renews them.
	Held int
	// Settle is how long the load is on before anything is measured.
	Settle time.Duration
	// TTL is how long nodes keep a lock that is not renewed.
	TTL time.Duration
	// Fixed is set if flags do not change Callers.
	Fixed bool
}

// Matrix is cells in all combinations.
type Matrix struct {
	Peers []string
	// Callers are how many there are, unless flags say otherwise, and Processes over how many
	// processes they are spread: 1 if empty.
	Callers, Processes []int
	// Nodes are how many there are; what flags say if empty.
	Nodes []int
	Loads []cell.Load
	// Faults are what befalls the nodes; nothing if empty.
	Faults []Breakage
	// Longer is how much longer than others it is measured, and at least how long.
	Longer  int
	AtLeast time.Duration
}

// Breakage is a fault of so many nodes.
type Breakage struct {
	Fault cluster.Fault
	Bad   int
}

// afterPart is the part of what is measured after which a node is restarted. Others fail at
// once.
const afterPart = 4

// over is the matrix, with what it does not say taken from another.
func (m Matrix) over(other Matrix) Matrix {
	return Matrix{
		Peers: either(m.Peers, other.Peers), Callers: either(m.Callers, other.Callers),
		Processes: either(m.Processes, other.Processes), Nodes: either(m.Nodes, other.Nodes),
		Loads: either(m.Loads, other.Loads), Faults: either(m.Faults, other.Faults),
		Longer: cmp.Or(m.Longer, other.Longer), AtLeast: cmp.Or(m.AtLeast, other.AtLeast),
	}
}

// either is the first that is not empty.
func either[T any](a, b []T) []T {
	if len(a) > 0 {
		return a
	}
	return b
}

var (
	cycle = []cell.Load{cell.Cycle}
	// contenders are the peers that can wait for a lock.
	contenders = []string{
		"redlock", "fair", "nohandover", "multilock", "redsync", "redsync-failfast", "redsync-rueidis",
		"redsync-rueidis-failfast", "redislock-1node", "redisson-redlock", "redisson-multilock", "redisson-1node", "etcd",
	}
	// kinds are the kinds of locks of this library, beside the plain one.
	kinds     = []string{"semaphore", "rwlock-readers", "rwlock-mixed", "latch", "join", "striped"}
	everybody = []string{
		"redlock", "multilock", "floor", "floor-group", "pipe", "redsync", "redsync-failfast", "redsync-rueidis",
		"redsync-rueidis-failfast", "redislock-1node", "redisson-redlock", "redisson-multilock", "redisson-1node", "etcd",
	}
)

const (
	usualTTL = 10 * time.Second
	shortTTL = time.Second
	longTTL  = time.Minute // nothing that is held is renewed meanwhile
	settle   = 200 * time.Millisecond
)

// Scenarios are all of them, in the order in which reports list them.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "uncontended", Title: "Locks that are free",
			About: "Each caller takes and gives back a lock of its own, again and again. An operation is an acquire and its release.",
			Full:  Matrix{Peers: everybody, Callers: []int{1, 16, 128, 1024}, Loads: cycle},
			Quick: Matrix{Peers: []string{"redlock", "floor", "redsync"}, Callers: []int{1, 128}},
			Goals: []Matrix{
				{Peers: []string{"redlock", "floor"}},
				{Peers: []string{"redsync"}, Callers: []int{128}},
			},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "contended", Title: "One lock that everybody wants",
			About: "All callers take and give back the same lock, and hold it for no time. In a hand-off, whoever gives it back asks again at once; in a forced pass, only after somebody else had it. The delay is from just before a release to the next grant; shares are the least and the most grants of a caller, relative to their mean.",
			Full: Matrix{
				Peers: contenders, Callers: []int{2, 16, 64}, Processes: []int{1, 8}, Loads: []cell.Load{cell.Handoff, cell.Pass},
				Longer: 3,
			},
			Quick: Matrix{
				Peers: []string{"redlock", "fair", "redsync"}, Callers: []int{64}, Processes: []int{8}, Loads: []cell.Load{cell.Pass},
				Longer: 2,
			},
			Goals: []Matrix{{
				Peers: []string{"redlock", "fair", "redsync"}, Callers: []int{64}, Processes: []int{8}, Loads: []cell.Load{cell.Pass},
			}},
			Settle: 500 * time.Millisecond, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "faults", Title: "Nodes that hang, die, or are slow",
			About: "Locks that are free, again; when measuring begins, some of the nodes are stopped (SIGSTOP) or killed. A slow one takes 50 ms longer each way, from the start. The keys that are left are counted when the nodes are back and up to a TTL has passed.",
			Full: Matrix{
				Peers: []string{
					"redlock", "floor", "floor-group", "redsync", "redsync-failfast", "redsync-rueidis", "redsync-rueidis-failfast",
					"redisson-redlock",
				},
				Callers: []int{16}, Loads: cycle,
				Faults: []Breakage{
					{}, {cluster.Hung, 1}, {cluster.Hung, 2}, {cluster.Killed, 1}, {cluster.Killed, 2}, {cluster.Slow, 1},
				},
				Longer: 6, // with a node that hangs, redsync takes ten seconds for an operation
			},
			Quick: Matrix{
				Peers: []string{"redlock", "redsync"}, Faults: []Breakage{{}, {cluster.Hung, 1}, {cluster.Killed, 1}}, Longer: 2,
			},
			Goals: []Matrix{{
				Peers: []string{"redlock"}, Faults: []Breakage{{}, {cluster.Hung, 1}, {cluster.Killed, 2}, {cluster.Slow, 1}},
			}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "recovery", Title: "A node that comes back without its memory",
			About: "Locks that are free. When a quarter of the time has passed, a node is killed, and restarted at once. It has forgotten which locks it gave, so this library takes none from it until those have run out: for the longest TTL and the clock skew together, which is 1.5 s here, with a TTL of 1 s. Others take locks from it at once, also those that somebody still holds. Beside the load, 100 leases are held where the peer renews them; none should be lost. The other nodes are a majority, so nobody should have to wait; pause is the longest time in which no operation ended.",
			Full: Matrix{
				Peers: []string{"redlock", "floor", "redsync", "redsync-rueidis"}, Callers: []int{16}, Loads: cycle,
				Faults: []Breakage{{}, {cluster.Restarted, 1}}, Longer: 4, AtLeast: 4 * time.Second,
			},
			Quick:  Matrix{Peers: []string{"redlock"}, Faults: []Breakage{{cluster.Restarted, 1}}, AtLeast: 3 * time.Second},
			Settle: settle, TTL: shortTTL, Held: 100,
		},
		{
			Name: "waiters", Title: "What waiting costs",
			About: "200 callers wait for a lock that another process holds all the time. What counts is how many commands a second that costs each node. This library asks for all that wait in one process together.",
			Full: Matrix{
				Peers: contenders, Callers: []int{200}, Processes: []int{1, 8}, Loads: []cell.Load{cell.Wait}, Longer: 2,
			},
			Quick:  Matrix{Peers: []string{"redlock", "redsync"}, Processes: []int{1}},
			Goals:  []Matrix{{Peers: []string{"redlock"}, Longer: 5}},
			Settle: time.Second, TTL: longTTL, Fixed: true,
		},
		{
			Name: "held", Title: "What holding costs",
			About: "Leases that are held and renew themselves. What counts is memory, goroutines, and how many commands it takes to renew.",
			Full: Matrix{
				Peers: []string{"redlock", "multilock"}, Callers: []int{10_000, 100_000}, Loads: []cell.Load{cell.Hold}, Longer: 5,
			},
			Quick:  Matrix{Peers: []string{"redlock"}, Callers: []int{10_000}},
			Goals:  []Matrix{{Peers: []string{"redlock"}, Callers: []int{100_000}}},
			Settle: time.Second, TTL: usualTTL, Fixed: true,
		},
		{
			Name: "nodes", Title: "The number of nodes",
			About: "Locks that are free, on more and more nodes. The cost of an operation should grow no faster than they do.",
			Full: Matrix{
				Peers: []string{"redlock", "floor", "floor-group", "redsync", "redsync-rueidis"}, Callers: []int{128},
				Nodes: []int{1, 3, 5, 7, 9}, Loads: cycle,
			},
			Quick:  Matrix{Peers: []string{"redlock"}, Nodes: []int{1, 9}},
			Goals:  []Matrix{{Peers: []string{"redlock"}}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "kinds", Title: "Other kinds of locks, free",
			About:  "What semaphores, locks for readers and writers, latches, joined locks and stripes cost, beside the plain lock: each caller has one of its own.",
			Full:   Matrix{Peers: append([]string{"redlock"}, kinds...), Callers: []int{1, 16, 128}, Loads: cycle},
			Quick:  Matrix{Peers: []string{"semaphore", "rwlock-mixed", "join"}, Callers: []int{16}},
			Settle: settle, TTL: usualTTL,
		},
		{
			Name: "kinds-contended", Title: "Other kinds of locks, wanted by everybody",
			About: "All callers want one lock of the kind, and hold it for no time. Violations are more holders of a semaphore than it has permits, anybody beside a writer, two holders of a stripe, and callers that a latch lets go before all have come. Each lease is given back to the nodes, and none handed over within a client, as with the plain lock beside them.",
			Full: Matrix{
				Peers: append([]string{"nohandover", "rwlock-writer"}, kinds...), Callers: []int{16, 64}, Processes: []int{1, 8},
				Loads: []cell.Load{cell.Handoff}, Longer: 2,
			},
			Quick: Matrix{
				Peers: []string{"semaphore", "rwlock-mixed", "latch"}, Callers: []int{16}, Processes: []int{8}, AtLeast: 800 * time.Millisecond,
			},
			Settle: 500 * time.Millisecond, TTL: usualTTL, Fixed: true,
		},
	}
}
