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
	// About explains the scenario to readers of the report.
	About string
	// Full is the complete matrix. In a quick run, the fields set in Quick replace its fields. In a run for the
	// goals, each matrix of Goals does, and a scenario without Goals is left out.
	Full, Quick Matrix
	Goals       []Matrix
	// Held is the number of leases that each process holds beside the load, if the peer renews leases.
	Held int
	// Settle is the time that the load runs before measuring begins.
	Settle time.Duration
	// TTL is the time after which nodes drop a lock that is not renewed.
	TTL time.Duration
	// Fixed keeps flags from changing Callers.
	Fixed bool
}

// Matrix stands for all combinations of its fields.
type Matrix struct {
	Peers []string
	// Callers are the numbers of callers, unless flags say otherwise. Processes are the numbers of processes over
	// which the callers are spread; 1 if empty.
	Callers, Processes []int
	// Nodes are the numbers of nodes; the flag decides if empty.
	Nodes []int
	Loads []cell.Load
	// Faults are the faults to measure with; none if empty.
	Faults []Breakage
	// Longer multiplies the measured time, and AtLeast is its lower bound.
	Longer  int
	AtLeast time.Duration
}

// Breakage is a fault of a number of nodes.
type Breakage struct {
	Fault cluster.Fault
	Bad   int
}

// afterPart is the part of the measured time after which a node is restarted. Other faults begin at once.
const afterPart = 4

// over returns the matrix with its empty fields taken from another.
func (m Matrix) over(other Matrix) Matrix {
	return Matrix{
		Peers: either(m.Peers, other.Peers), Callers: either(m.Callers, other.Callers),
		Processes: either(m.Processes, other.Processes), Nodes: either(m.Nodes, other.Nodes),
		Loads: either(m.Loads, other.Loads), Faults: either(m.Faults, other.Faults),
		Longer: cmp.Or(m.Longer, other.Longer), AtLeast: cmp.Or(m.AtLeast, other.AtLeast),
	}
}

// either returns the first list unless it is empty.
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

// Scenarios returns all scenarios, in the order of the report.
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
			Name: "contended", Title: "One lock that all callers want",
			About: "All callers take and give back the same lock, and hold it for no time. In a hand-off, the last holder asks again at once; in a forced pass, only after another caller held it. The delay is from just before a release to the next grant; shares are the least and the most grants of a caller, relative to their mean.",
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
			About: "Locks that are free. When a quarter of the time has passed, a node is killed, and restarted at once. It has forgotten its locks, so this library takes none from it until those have expired: after MaxTTL + MaxClockSkew, which is 1.5 s here, with a TTL of 1 s. Other peers take locks from it at once, even locks that are still held. Beside the load, 100 leases are held where the peer renews them; none should be lost. The other nodes are a majority, so no caller should have to wait; pause is the longest time in which no operation ended.",
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
			Name: "kinds-contended", Title: "Other kinds of locks, contended",
			About: "All callers want one lock of the kind, and hold it for no time. Violations are more holders of a semaphore than it has permits, any holder beside a writer, two holders of a stripe, and callers that a latch lets go before all have come. Each lease is given back to the nodes, and none handed over within a client, as with the plain lock beside them.",
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
