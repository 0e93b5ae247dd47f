package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
)

// Case is all that is decided about a run before it begins.
type Case struct {
	Seed uint64
	// Kind is what some of the tasks want instead of locks.
	Kind    Kind
	Nodes   []Clock
	Clients []Clock
	// Opened is set if the nodes were set up before; otherwise each begins with a
	// recovery, when it is first asked.
	Opened bool
	// Timeout is how long clients wait for a node at most.
	Timeout time.Duration
	// Weather is what every message is up against.
	Weather Weather
	// Handover bounds how leases pass from one waiter of a client to the next.
	Handover quorumlock.Handover
	// Permits is how many there are of the semaphore that some of the tasks want; 0 if none does.
	Permits int
	// Sound is how many of the nodes, the first ones, never lose their memory.
	Sound int
	// Faults are what is broken, and Tasks what clients do meanwhile.
	Faults faultinject.Plan
	Tasks  []Task

	// Tampers are what takes locks away from their holders.
	Tampers []Tamper

	// dropped says what was taken from the case since it was drawn.
	dropped dropped
}

// Clock is how far a clock is wrong: its rate, and the offset of its wall clock.
type Clock struct {
	Rate float64
	Wall time.Duration
}

// Weather is how the network treats messages.
type Weather struct {
	// Least and Most bound how long a message is under way.
	Least, Most time.Duration
	// Lose is how likely a message is lost, Double how likely a request arrives a second
	// time, and up to Stray later.
	Lose, Double float64
	Stray        time.Duration
	// Forget is how likely a node loses its memory soon after it granted something.
	Forget float64
	// Unordered has requests arrive that are older than others of the same client, as
	// a server might run them that knows nothing of the old connection's end.
	Unordered bool
}

// Task is one try of a client at a lock, and what it does with it.
type Task struct {
	At     time.Duration
	Client int
	// Names are of one lock, All if every node must agree.
	Names []string
	All   bool
	Fixed bool
	// Patience is how long it waits for the lock, Hold how long it keeps it.
	Patience, Hold time.Duration
	// Careless is set if it does not release the lock, and acts until it is told that
	// the lease is over; Extend if it renews by hand.
	Careless, Extend bool
	// Endless is set if nothing but the lock ends its patience, Try if it makes one attempt
	// only, Again how often it wants the lock once more when it has released it.
	Endless, Try bool
	Again        int
	// Waiting is how it waits, NoHandover whether it takes part in no hand-over.
	Waiting    quorumlock.Waiting
	NoHandover bool
	// Nested is set if it takes the lock within the lease once more, Swapped if it then
	// gives the outer lease back first.
	Nested, Swapped bool
	// Reads is set if it is a reader of the lock, Downgrade if it becomes one when it has had
	// the lock for half of Hold.
	Reads, Downgrade bool
	// TTL is that of the lock, where it is less than the largest; 0 if not.
	TTL time.Duration
	// Permits is how many permits it wants instead of a lock, of the semaphore of the case.
	Permits int
	// Latch is the call of the latch that it makes instead, if any.
	Latch *LatchCall
}

// dropped is what [Shrink] has taken from a case.
type dropped struct {
	// faults and tasks have the indices of those that are left; nil means all.
	faults, tasks []int
	// calm has no weather, exact no wrong clocks.
	calm, exact bool
}

// String is the case in short, for ParseCase.
func (c *Case) String() string {
	parts := []string{fmt.Sprintf("%#x", c.Seed)}
	if c.Kind != OfLocks {
		parts = append(parts, string(c.Kind))
	}
	if c.dropped.faults != nil {
		parts = append(parts, "faults="+numbers(c.dropped.faults))
	}
	if c.dropped.tasks != nil {
		parts = append(parts, "tasks="+numbers(c.dropped.tasks))
	}
	if c.dropped.calm {
		parts = append(parts, "calm")
	}
	if c.dropped.exact {
		parts = append(parts, "exact")
	}
	return strings.Join(parts, "/")
}

func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

// ParseCase draws the case that String has written.
func ParseCase(text string) (*Case, error) {
	parts := strings.Split(text, "/")
	seed, err := strconv.ParseUint(parts[0], 0, 64)
	if err != nil {
		return nil, fmt.Errorf("sim: the case %q must begin with a seed: %w", text, err)
	}
	var d dropped
	kind := OfLocks
	for _, part := range parts[1:] {
		word, list, _ := strings.Cut(part, "=")
		switch word {
		case "faults":
			d.faults, err = parseNumbers(list)
		case "tasks":
			d.tasks, err = parseNumbers(list)
		case "calm":
			d.calm = true
		case "exact":
			d.exact = true
		default:
			if kind = Kind(part); kind.draws() == nil {
				err = fmt.Errorf("%q means nothing", part)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("sim: the case %q: %w", text, err)
		}
	}
	return kind.Draw(seed).without(d)
}

func parseNumbers(list string) ([]int, error) {
	numbers := []int{}
	if list == "" {
		return numbers, nil
	}
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// without is a freshly drawn case with less in it.
func (c *Case) without(d dropped) (*Case, error) {
	less := *c
	less.dropped = d
	var err error
	if d.faults != nil {
		less.Faults, err = pick(c.Faults, d.faults)
	}
	if d.tasks != nil && err == nil {
		less.Tasks, err = pick(c.Tasks, d.tasks)
	}
	if d.calm {
		// A spread, as no two messages are to arrive at one instant.
		less.Weather = Weather{Least: time.Millisecond, Most: 2 * time.Millisecond}
	}
	if d.exact {
		less.exact()
	}
	return &less, err
}

// exact sets all clocks right.
func (c *Case) exact() {
	c.Nodes = slices.Repeat([]Clock{{Rate: 1}}, len(c.Nodes))
	c.Clients = slices.Repeat([]Clock{{Rate: 1}}, len(c.Clients))
}

// number is what a task had for a number when the case was drawn: what it does depends on
// that, and not on what has been dropped since.
func (c *Case) number(task int) int {
	if c.dropped.tasks == nil {
		return task
	}
	return c.dropped.tasks[task]
}

func pick[T any](all []T, indices []int) ([]T, error) {
	some := make([]T, 0, len(indices))
	for _, i := range indices {
		if i < 0 || i >= len(all) {
			return nil, fmt.Errorf("there is no number %d of %d", i, len(all))
		}
		some = append(some, all[i])
	}
	return some, nil
}

// Describe says in words what the case is.
func (c *Case) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, %d clients, TTL and MaxTTL %v, MaxClockSkew %v, messages under way for %v to %v",
		len(c.Nodes), len(c.Clients), ttl, maxSkew, c.Weather.Least, c.Weather.Most)
	if !c.Opened {
		b.WriteString(", the nodes are new")
	}
	if h := c.Handover; h.Off {
		b.WriteString(", nothing is handed over")
	} else if h != (quorumlock.Handover{}) {
		fmt.Fprintf(&b, ", handed over %d times for %v", h.MaxCount, h.MaxTime)
	}
	if c.Permits > 0 {
		fmt.Fprintf(&b, ", a semaphore of %d permits", c.Permits)
	}
	if w := c.Weather; w.Forget > 0 {
		fmt.Fprintf(&b, ", %.0f%% of grants forgotten", 100*w.Forget)
	}
	if c.Sound > 0 {
		fmt.Fprintf(&b, ", %d of the nodes never forget anything", c.Sound)
	}
	if w := c.Weather; w.Lose > 0 || w.Double > 0 || w.Unordered {
		fmt.Fprintf(&b, ", %.0f%% lost, %.0f%% doubled", 100*w.Lose, 100*w.Double)
		if w.Unordered {
			b.WriteString(", in any order")
		}
	}
	b.WriteString("\n")
	for _, t := range c.Tampers {
		fmt.Fprintln(&b, t)
	}
	tell := func(kind string, clocks []Clock) {
		for i, clock := range clocks {
			if clock != (Clock{Rate: 1}) {
				fmt.Fprintf(&b, "the clock of %s%d runs at %.5f, its wall clock is %v off\n", kind, i+1, clock.Rate, clock.Wall)
			}
		}
	}
	tell("n", c.Nodes)
	tell("c", c.Clients)
	return b.String()
}
