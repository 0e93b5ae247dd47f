package sim

import "slices"

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
		s.thin(&d, func(d *dropped) *[]int { return &d.tasks })
		s.thin(&d, func(d *dropped) *[]int { return &d.faults })
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

// thin drops shorter and shorter runs of a list, as long as the case fails.
func (s *shrinker) thin(d *dropped, list func(*dropped) *[]int) {
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
