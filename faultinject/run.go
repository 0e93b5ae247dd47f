package faultinject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Subject is what a plan is carried out on.
type Subject interface {
	// Begin breaks what the step is about, End mends it. Steps about one target come one
	// after the other, those about several in parallel. A step of an instant has no End.
	Begin(ctx context.Context, s Step) error
	End(ctx context.Context, s Step) error
}

// Run carries out the plan, in real time or that of a bubble, and returns when its last
// step has ended. What has begun is mended in any case, also when ctx ends, and when a step
// has failed, as that ends the plan for its target: it is then said of which steps that it
// cannot be. tell, if not nil, is told each beginning and end; it may be called by several
// goroutines at a time.
//
// The error joins those of all steps, except those that come of the end of ctx. A plan
// that Check refuses is refused before anything begins.
func (p Plan) Run(ctx context.Context, on Subject, tell func(line string)) error {
	if err := p.Check(math.MaxInt, math.MaxInt); err != nil {
		return err
	}
	if tell == nil {
		tell = func(string) {}
	}
	targets := make(map[string]*schedule)
	for _, s := range p {
		if targets[s.Target()] == nil {
			targets[s.Target()] = &schedule{on: on, tell: tell, began: time.Now()}
		}
		targets[s.Target()].add(s)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, target := range targets {
		wg.Go(func() {
			err := target.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// schedule is what happens to one target.
type schedule struct {
	on      Subject
	tell    func(string)
	began   time.Time
	changes []change
}

// change is the beginning or the end of a step.
type change struct {
	at    time.Duration
	begin bool
	step  Step
}

func (s *schedule) add(step Step) {
	s.changes = append(s.changes, change{step.At, true, step})
	if !kinds[step.Fault].instant {
		s.changes = append(s.changes, change{step.End(), false, step})
	}
}

// mendTime bounds how long it may take to mend what is broken when the plan is cut short.
const mendTime = 30 * time.Second

func (s *schedule) run(ctx context.Context) error {
	slices.SortStableFunc(s.changes, inOrder)
	var broken []Step
	var failure error
	for _, c := range s.changes {
		if failure != nil || !sleepUntil(ctx, s.began.Add(c.at)) {
			break
		}
		err := s.carryOut(ctx, c)
		if ctx.Err() == nil {
			failure = err
		}
		switch {
		case c.begin && !kinds[c.step.Fault].instant:
			broken = append(broken, c.step) // also if that failed: it may be half broken
		case !c.begin && err == nil:
			broken = slices.DeleteFunc(broken, func(b Step) bool { return b == c.step })
		}
	}
	return errors.Join(failure, s.mend(ctx, broken))
}

// inOrder has what ends at an instant end before something else begins.
func inOrder(a, b change) int {
	switch {
	case a.at != b.at:
		return cmp.Compare(a.at, b.at)
	case a.begin == b.begin:
		return 0
	case a.begin:
		return 1
	default:
		return -1
	}
}

// mend ends what is still broken, the last first.
func (s *schedule) mend(ctx context.Context, broken []Step) error {
	mending, cancel := context.WithTimeout(context.WithoutCancel(ctx), mendTime)
	defer cancel()
	var errs []error
	for _, step := range slices.Backward(broken) {
		errs = append(errs, s.carryOut(mending, change{step: step}))
	}
	return errors.Join(errs...)
}

func (s *schedule) carryOut(ctx context.Context, c change) error {
	act, what := s.on.End, "ends: "
	if c.begin {
		act, what = s.on.Begin, ""
	}
	s.tell(what + c.step.String())
	if err := act(ctx, c.step); err != nil {
		return fmt.Errorf("faultinject: %s%s: %w", what, c.step, err)
	}
	return nil
}

// sleepUntil reports whether ctx goes on.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
