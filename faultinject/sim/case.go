package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
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
	// Permits is the size of the semaphore that some of the tasks use; 0 if none does.
	Permits int
	// Sound is the number of nodes, from the first, that never lose their memory.
	Sound int
	// Faults are the faults, and Tasks the concurrent work of clients.
	Faults faultinject.Plan
	Tasks  []Task

	// Tampers are interventions that take locks away from their holders.
	Tampers []Tamper

	// dropped has the parts that Shrink removed from the drawn case.
	dropped dropped
}

// Clock is the error of a clock: its rate, and the offset of its wall clock.
type Clock struct {
	Rate float64
	Wall time.Duration
}

// Settings are what clients may set differently. The zero value leaves all as it is by default.
type Settings struct {
	TTL, MaxHold time.Duration
	Waiting      quorumlock.Waiting
	Holder       string
	// First is how many nodes the client lists, from the first; 0 for all.
	First int
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

// dropped is the parts that [Shrink] has removed from a case.
type dropped struct {
	// faults and tasks have the indices of the remaining ones; nil means all.
	faults, tasks []int
	// calm removes the weather, exact the clock errors.
	calm, exact bool
}

// String encodes the case for ParseCase.
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

// ParseCase draws the case that String has encoded.
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
			if kind = Kind(part); draws[kind] == nil {
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

// without returns a freshly drawn case without the dropped parts.
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
		// The times differ, because no two messages may arrive at one instant.
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

// number returns the number of a task when the case was drawn. The actions of the task depend on it, and must not
// change when others are dropped.
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

// Describe lists what was drawn, except for faults and tasks: the history tells of these.
func (c *Case) Describe() string {
	return fmt.Sprintf("TTL and MaxTTL %v, MaxClockSkew %v\nnodes: %+v\nclients: %+v\nsettings: %+v\nweather: %+v\nhand-over: %+v\n"+
		"opened %v, timeout %v, demand %v, permits %d, sound nodes %d\n%v\n",
		ttl, maxSkew, c.Nodes, c.Clients, c.Settings, c.Weather, c.Handover, c.Opened, c.Timeout, c.Demand, c.Permits, c.Sound, c.Tampers)
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
func (k Kind) Draw(seed uint64) *Case { return draws[k](seed) }

// shrinkRuns bounds the work to shrink a case.
const shrinkRuns = 600

// Shrink removes from a failing case everything that it fails without: weather, clock errors, tasks and faults. fails
// reports whether a case still fails in the same way. The case is drawn anew from its seed, so manual changes are
// lost.
func Shrink(c *Case, fails func(*Case) bool) *Case {
	s := shrinker{full: c.Kind.Draw(c.Seed), best: c, fails: fails, left: shrinkRuns}
	d := c.dropped
	if d.tasks == nil {
		d.tasks = upTo(len(s.full.Tasks))
	}
	if d.faults == nil {
		d.faults = upTo(len(s.full.Faults))
	}
	s.try(&d, func(d *dropped) { d.calm = true })
	s.try(&d, func(d *dropped) { d.exact = true })
	for before := -1; before != len(d.tasks)+len(d.faults) && s.left > 0; {
		before = len(d.tasks) + len(d.faults)
		s.dropRuns(&d, func(d *dropped) *[]int { return &d.tasks })
		s.dropRuns(&d, func(d *dropped) *[]int { return &d.faults })
	}
	s.try(&d, func(d *dropped) { d.calm = true })
	s.try(&d, func(d *dropped) { d.exact = true })
	return s.best
}

type shrinker struct {
	full, best *Case
	fails      func(*Case) bool
	left       int
}

// try changes the dropped parts, if the case still fails then.
func (s *shrinker) try(d *dropped, change func(*dropped)) bool {
	next := *d
	change(&next)
	c, err := s.full.without(next)
	if err != nil || s.left == 0 {
		return false
	}
	s.left--
	if !s.fails(c) {
		return false
	}
	*d, s.best = next, c
	return true
}

// dropRuns drops shorter and shorter runs of a list, as long as the case fails.
func (s *shrinker) dropRuns(d *dropped, list func(*dropped) *[]int) {
	for size := (len(*list(d)) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(*list(d)); {
			end := min(at+size, len(*list(d)))
			if !s.try(d, func(d *dropped) { *list(d) = slices.Delete(slices.Clone(*list(d)), at, end) }) {
				at += size
			}
		}
	}
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
