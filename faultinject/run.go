package faultinject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// step has ended. What has begun is mended in any case, also when ctx ends, and also when
// a step has failed: that only ends the plan for its target. tell, if not nil, is told each
// beginning and end; it may be called by several goroutines at a time.
//
// The error joins those of all steps. It does not include ctx's own.
func (p Plan) Run(ctx context.Context, on Subject, tell func(line string)) error {
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
	slices.SortStableFunc(s.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var broken []Step
	var errs []error
	for _, c := range s.changes {
		if len(errs) > 0 || !sleepUntil(ctx, s.began.Add(c.at)) {
			break
		}
		if err := s.carryOut(ctx, c); err != nil {
			errs = append(errs, err)
		}
		if broken = slices.DeleteFunc(broken, func(b Step) bool { return b == c.step }); c.begin && !kinds[c.step.Fault].instant {
			broken = append(broken, c.step) // also if that failed: it may be half broken
		}
	}
	mending, cancel := context.WithTimeout(context.WithoutCancel(ctx), mendTime)
	defer cancel()
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
	if err := act(ctx, c.step); err != nil && ctx.Err() == nil {
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
