package runner

import (
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
	// Peers are those that can be measured so.
	Peers []string
	// Callers are how many there are, unless flags say otherwise; Processes how many
	// processes they are spread over; Nodes how many nodes there are, 0 for what flags say.
	Callers, Processes, Nodes []int
	Loads                     []cell.Load
	Faults                    []Breakage
	// Quick is how many of Callers, Processes, Nodes and Faults are left of it in a quick run,
	// and which peers.
	Quick Quick
	// Longer is how much longer than others it is measured.
	Longer int
	// Settle is how long the load is on before anything is measured.
	Settle time.Duration
	// TTL is how long nodes keep a lock that is not renewed.
	TTL time.Duration
	// Fixed is set if flags do not change Callers.
	Fixed bool
}

// Breakage is a fault of so many nodes.
type Breakage struct {
	Fault cluster.Fault
	Bad   int
}

// Quick is what is left of a scenario in a quick run.
type Quick struct {
	Peers                     []string
	Callers, Processes, Nodes []int
	Loads                     []cell.Load
	Faults                    []Breakage
	// Longer is less than in a full run, where not everything can be seen so soon.
	Longer int
}

var (
	healthy = []Breakage{{}}
	one     = []int{1}
	usual   = []int{0}
	// contenders are the peers that can wait for a lock.
	contenders = []string{
		"redlock", "fair", "nohandover", "multilock", "redsync", "redsync-failfast", "redsync-rueidis",
		"redsync-rueidis-failfast", "redislock-1node", "etcd",
	}
	everybody = []string{
		"redlock", "multilock", "floor", "floor-group", "pipe", "redsync", "redsync-failfast", "redsync-rueidis",
		"redsync-rueidis-failfast", "redislock-1node", "etcd",
	}
)

const (
	usualTTL = 10 * time.Second
	shortTTL = time.Second
	settle   = 200 * time.Millisecond
)

// Scenarios are all of them, in the order in which reports list them.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "uncontended", Title: "Locks that are free",
			About: "Each caller takes and gives back a lock of its own, again and again. An operation is an acquire and its release.",
			Peers: everybody, Callers: []int{1, 16, 128, 1024}, Processes: one, Nodes: usual,
			Loads: []cell.Load{cell.Cycle}, Faults: healthy, Settle: settle, TTL: usualTTL,
			Quick: Quick{
				Peers:   []string{"redlock", "floor", "floor-group", "redsync", "redsync-rueidis"},
				Callers: []int{1, 128}, Processes: one, Nodes: usual, Loads: []cell.Load{cell.Cycle}, Faults: healthy,
			},
		},
		{
			Name: "contended", Title: "One lock that everybody wants",
			About: "All callers take and give back the same lock, and hold it for no time. In a hand-off, whoever gives it back asks again at once; in a forced pass, only after somebody else had it. The delay is from just before a release to the next grant; shares are the least and the most grants of a caller, relative to their mean.",
			Peers: contenders, Callers: []int{2, 16, 64}, Processes: []int{1, 8}, Nodes: usual,
			Loads: []cell.Load{cell.Handoff, cell.Pass}, Faults: healthy, Settle: 500 * time.Millisecond, TTL: usualTTL, Fixed: true,
			Quick: Quick{
				Peers: []string{"redlock", "fair", "redsync"}, Callers: []int{64}, Processes: []int{8}, Nodes: usual,
				Loads: []cell.Load{cell.Pass}, Faults: healthy,
			},
		},
		{
			Name: "faults", Title: "Nodes that hang, die, or are slow",
			About:   "Locks that are free, again; when measuring begins, some of the nodes are stopped (SIGSTOP), killed, or killed and restarted without their memory. A slow one takes 50 ms longer each way, from the start. The keys that are left are counted when the nodes are back and up to a TTL has passed.",
			Peers:   []string{"redlock", "floor", "floor-group", "redsync", "redsync-failfast", "redsync-rueidis", "redsync-rueidis-failfast"},
			Callers: []int{16}, Processes: one, Nodes: usual, Loads: []cell.Load{cell.Cycle}, Settle: settle, TTL: usualTTL,
			Faults: []Breakage{
				{}, {cluster.Hung, 1}, {cluster.Hung, 2}, {cluster.Killed, 1}, {cluster.Killed, 2}, {cluster.Slow, 1},
			},
			// With a node that hangs, redsync takes ten seconds for an operation.
			Longer: 6,
			Quick: Quick{
				Peers: []string{"redlock", "redsync"}, Callers: []int{16}, Processes: one, Nodes: usual,
				Loads: []cell.Load{cell.Cycle}, Faults: []Breakage{{}, {cluster.Hung, 1}, {cluster.Killed, 1}},
				Longer: 2,
			},
		},
		{
			Name: "recovery", Title: "A node that comes back without its memory",
			About:   "Locks that are free; when measuring begins, a node is killed and restarted. This library's clients then take no locks from it for the longest TTL and the clock skew; here that is 1.5 s, with a TTL of 1 s.",
			Peers:   []string{"redlock", "floor", "redsync", "redsync-rueidis"},
			Callers: []int{16}, Processes: one, Nodes: usual, Loads: []cell.Load{cell.Cycle}, Settle: settle, TTL: shortTTL,
			Faults: []Breakage{{}, {cluster.Restarted, 1}}, Longer: 2,
			Quick: Quick{
				Peers: []string{"redlock"}, Callers: []int{16}, Processes: one, Nodes: usual,
				Loads: []cell.Load{cell.Cycle}, Faults: []Breakage{{cluster.Restarted, 1}},
			},
		},
		{
			Name: "waiters", Title: "What waiting costs",
			About: "200 callers wait for a lock that is held all the time. What counts is how many commands a second that costs each node.",
			Peers: contenders, Callers: []int{200}, Processes: []int{1, 8}, Nodes: usual, Loads: []cell.Load{cell.Wait},
			Faults: healthy, Settle: time.Second, TTL: usualTTL, Longer: 2, Fixed: true,
			Quick: Quick{
				Peers: []string{"redlock", "redsync"}, Callers: []int{200}, Processes: one, Nodes: usual,
				Loads: []cell.Load{cell.Wait}, Faults: healthy,
			},
		},
		{
			Name: "held", Title: "What holding costs",
			About: "Leases that are held and renew themselves. What counts is memory, goroutines, and how many commands it takes to renew.",
			Peers: []string{"redlock", "multilock"}, Callers: []int{10_000, 100_000}, Processes: one, Nodes: usual,
			Loads: []cell.Load{cell.Hold}, Faults: healthy, TTL: usualTTL, Longer: 5, Settle: time.Second, Fixed: true,
			Quick: Quick{
				Peers: []string{"redlock"}, Callers: []int{10_000}, Processes: one, Nodes: usual,
				Loads: []cell.Load{cell.Hold}, Faults: healthy,
			},
		},
		{
			Name: "nodes", Title: "The number of nodes",
			About:   "Locks that are free, on more and more nodes. The cost of an operation should grow no faster than they do.",
			Peers:   []string{"redlock", "floor", "floor-group", "redsync", "redsync-rueidis"},
			Callers: []int{128}, Processes: one, Nodes: []int{1, 3, 5, 7, 9}, Loads: []cell.Load{cell.Cycle},
			Faults: healthy, Settle: settle, TTL: usualTTL,
			Quick: Quick{
				Peers: []string{"redlock"}, Callers: []int{128}, Processes: one, Nodes: []int{1, 9},
				Loads: []cell.Load{cell.Cycle}, Faults: healthy,
			},
		},
	}
}
