package sim_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/sim"
)

// reduced is a drawn case without the parts that shrink has removed. Its text is what -case takes.
type reduced struct {
	seed uint64
	kind sim.Kind
	// faults and tasks have the numbers of the remaining ones; nil means all.
	faults, tasks []int
	// calm removes the weather, exact the clock errors.
	calm, exact bool
}

// String encodes the case for parseCase.
func (r reduced) String() string {
	parts := []string{fmt.Sprintf("%#x", r.seed)}
	if r.kind != sim.OfLocks {
		parts = append(parts, string(r.kind))
	}
	listed := func(word string, list []int) {
		if list != nil {
			parts = append(parts, word+"="+strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]"))
		}
	}
	listed("faults", r.faults)
	listed("tasks", r.tasks)
	if r.calm {
		parts = append(parts, "calm")
	}
	if r.exact {
		parts = append(parts, "exact")
	}
	return strings.Join(parts, "/")
}

func parseCase(text string) (r reduced, err error) {
	parts := strings.Split(text, "/")
	if r.seed, err = strconv.ParseUint(parts[0], 0, 64); err != nil {
		return r, fmt.Errorf("the case %q must begin with a seed: %w", text, err)
	}
	for _, part := range parts[1:] {
		word, list, _ := strings.Cut(part, "=")
		switch word {
		case "faults":
			r.faults, err = parseNumbers(list)
		case "tasks":
			r.tasks, err = parseNumbers(list)
		case "calm":
			r.calm = true
		case "exact":
			r.exact = true
		default:
			if r.kind = sim.Kind(part); !slices.Contains(sim.Kinds, r.kind) {
				err = fmt.Errorf("%q means nothing", part)
			}
		}
		if err != nil {
			return r, fmt.Errorf("the case %q: %w", text, err)
		}
	}
	whole := r.kind.Draw(r.seed)
	for _, n := range r.tasks {
		if n < 0 || n >= len(whole.Tasks) {
			return r, fmt.Errorf("the case %q: there is no task %d of %d, which count from 0", text, n, len(whole.Tasks))
		}
	}
	for _, n := range r.faults {
		if n < 0 || n >= len(whole.Faults) {
			return r, fmt.Errorf("the case %q: there is no fault %d of %d, which count from 0", text, n, len(whole.Faults))
		}
	}
	return r, nil
}

func parseNumbers(list string) ([]int, error) {
	numbers := []int{}
	for word := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// draw draws the case without the removed parts.
func (r reduced) draw() *sim.Case {
	c := r.kind.Draw(r.seed)
	if r.faults != nil {
		c.Faults = pick(c.Faults, r.faults)
	}
	if r.tasks != nil {
		c.Tasks = pick(c.Tasks, r.tasks)
	}
	if r.calm {
		// The times differ, because no two messages may arrive at one instant.
		c.Weather = sim.Weather{Least: time.Millisecond, Most: 2 * time.Millisecond}
	}
	if r.exact {
		c.Exact()
	}
	return c
}

func pick[T any](all []T, numbers []int) []T {
	some := make([]T, len(numbers))
	for i, n := range numbers {
		some[i] = all[n]
	}
	return some
}

// shrinkRuns bounds the work to shrink a case.
const shrinkRuns = 600

// shrink removes from a failing case everything that it fails without: weather, clock errors, tasks and faults. fails
// reports whether a case still fails in the same way.
func shrink(r reduced, fails func(*sim.Case) bool) reduced {
	left := shrinkRuns
	try := func(next reduced) bool {
		if left == 0 {
			return false
		}
		left--
		fewer := fails(next.draw())
		if fewer {
			r = next
		}
		return fewer
	}
	// drop drops shorter and shorter runs of a list, as long as the case fails.
	drop := func(list func(*reduced) *[]int) {
		for size := (len(*list(&r)) + 1) / 2; size > 0; size /= 2 {
			for at := 0; at < len(*list(&r)); {
				next := r
				*list(&next) = slices.Delete(slices.Clone(*list(&r)), at, min(at+size, len(*list(&r))))
				if !try(next) {
					at += size
				}
			}
		}
	}
	straighten := func() {
		next := r
		next.calm = true
		try(next)
		next = r
		next.exact = true
		try(next)
	}
	whole := r.draw()
	r.tasks, r.faults = upTo(len(whole.Tasks)), upTo(len(whole.Faults))
	straighten()
	for before := -1; before != len(r.tasks)+len(r.faults) && left > 0; {
		before = len(r.tasks) + len(r.faults)
		drop(func(r *reduced) *[]int { return &r.tasks })
		drop(func(r *reduced) *[]int { return &r.faults })
	}
	straighten()
	return r
}

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// TestShrinkKeepsWhatACaseFailsWith: the text of the shrunk case draws what is left of it, and each task acts as before.
func TestShrinkKeepsWhatACaseFailsWith(t *testing.T) {
	const task = 3
	r := reduced{kind: sim.OfPermits}
	for whole := r.draw(); len(whole.Tasks) <= task || len(whole.Faults) == 0; whole = r.draw() {
		r.seed++
	}
	fails := func(c *sim.Case) bool {
		return slices.ContainsFunc(c.Tasks, func(t sim.Task) bool { return t.Number == task })
	}
	small := shrink(r, fails)
	require.Equal(t, fmt.Sprintf("%#x/permits/faults=/tasks=3/calm/exact", r.seed), small.String())
	again, err := parseCase(small.String())
	require.NoError(t, err)
	require.Equal(t, small, again)
	require.Equal(t, []sim.Task{r.draw().Tasks[task]}, again.draw().Tasks)
	for _, wrong := range []string{"", "x", "1/nothing", "1/tasks=a", "1/tasks=1000", "1/tasks=-1", "1/faults=1000"} {
		_, err := parseCase(wrong)
		require.Error(t, err, wrong)
	}
}
