package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Case is the complete input of a run.
type Case struct {
	Seed uint64
	// Kind is the kind of object that some of the tasks use instead of locks.
	Kind    Kind
	Nodes   []Clock
	Clients []Clock
	// Opened is set if the nodes were set up before. Otherwise each node begins with a recovery when it gets its
	// first request.
	Opened bool
	// Long is set if the limits are long enough for the fast paths of acquisitions, which compare whole seconds.
	Long bool
	// Timeout is the longest time that clients wait for a node.
	Timeout time.Duration
	// Weather is the treatment of all messages.
	Weather Weather
	// Settings are the settings of each client.
	Settings []Settings
	// Handover bounds the hand-overs between waiters of a client.
	Handover quorumlock.Handover
	// Demand is set if far more callers want the lock than can have it, most of them for a moment only. What they leave must
	// not keep a patient one waiting.
	Demand bool
	// Short is how many nodes the rival lists; 0 if it lists all.
	Short int
	// Lists are the lists of a change of nodes, Limits the limits of a change of these, and Moves move the clients from each to
	// the next.
	Lists  [][]int
	Limits []wire.Limits
	Moves  []Move
	// Permits is the size of the semaphore that some of the tasks use; 0 if none does.
	Permits int
	// Sound is the number of nodes, from the first, that never lose their memory.
	Sound int
	// Faults are the faults, and Tasks the concurrent work of clients.
	Faults faultinject.Plan
	Tasks  []Task

	// Tampers are interventions that take locks away from their holders.
	Tampers []Tamper
}

// Clock is the error of a clock: its rate, and the offset of its wall clock.
type Clock struct {
	Rate float64
	Wall time.Duration
}

// Settings are what clients may set differently. The zero value leaves all as it is by default.
type Settings struct {
	TTL, MaxHold time.Duration
	Holder       string
	// List has the nodes that the client lists; nil for all. Limits are its limits; those of the case if zero.
	List   []int
	Limits wire.Limits
}

// Weather is how the network treats messages.
type Weather struct {
	// Least and Most bound the delay of a message.
	Least, Most time.Duration
	// Lose is the probability that a message is lost. Double is the probability that a request arrives a second time,
	// at most Stray later.
	Lose, Double float64
	Stray        time.Duration
	// Late is the probability that a request arrives up to MaxTTL later than others, whatever became of its connection and
	// of its process.
	Late float64
	// Forget is the probability that a node loses its memory soon after a grant.
	Forget float64
	// Unordered allows requests to arrive after later ones of the same client, as on a node that does not notice the
	// end of an old connection.
	Unordered bool
}

// Task is one attempt of a client to acquire a lock or permits, and its use of them.
type Task struct {
	// Number is its number in the case that was drawn. What it does depends on that, and stays the same when a test drops
	// other tasks.
	Number int
	At     time.Duration
	Client int
	workload.Use
	// Endless is set if only the lock ends its wait. Again is how often it acquires the lock once more after its
	// release.
	Endless bool
	Again   int
	// Nested is set if it acquires the lock again within the lease, Swapped if it then releases the outer lease
	// first.
	Nested, Swapped bool
	// Late is set if it releases the lock only shortly before the lease ends by the clock.
	Late bool
	// Other is the use that it joins with its own.
	Other *workload.Use
	// Asks is the question that it asks instead, if any.
	Asks workload.Question
	// Latch is the call of the latch that it makes instead, if any.
	Latch *workload.LatchCall
}

// Exact sets all clocks right.
func (c *Case) Exact() {
	c.Nodes = slices.Repeat([]Clock{{Rate: 1}}, len(c.Nodes))
	c.Clients = slices.Repeat([]Clock{{Rate: 1}}, len(c.Clients))
}

// Kind is the difference between a case and one of plain locks.
type Kind string

// The kinds of cases.
const (
	OfLocks   Kind = ""
	OfPermits Kind = "permits"
	OfLatches Kind = "latches"
	// OfTampering is of locks that are released by force and deleted by hand.
	OfTampering Kind = "tampering"
)

// Kinds are all kinds of cases.
var Kinds = []Kind{OfLocks, OfPermits, OfLatches, OfTampering}

// draws are the functions that draw the cases of each kind.
var draws = map[Kind]func(seed uint64) *Case{
	OfLocks: drawLocks, OfPermits: drawPermits, OfLatches: drawLatches, OfTampering: drawTampering,
}

// Draw draws the case of a seed.
func (k Kind) Draw(seed uint64) *Case {
	c := draws[k](seed)
	for i := range c.Tasks {
		c.Tasks[i].Number = i
	}
	return c
}
