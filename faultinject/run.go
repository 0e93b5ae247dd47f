package faultinject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Subject is the target of a plan.
type Subject interface {
	// Begin injects the step's fault, End repairs it. Steps on one target come one after the other, those on several
	// targets in parallel. A step of a single instant has no End.
	Begin(ctx context.Context, s Step) error
	End(ctx context.Context, s Step) error
}

// Run executes the plan, in real time or the time of a bubble, and returns when its last step has ended. It repairs
// every fault in any case, also when ctx ends. A step that fails ends the plan for its target, and is repaired too.
// Run calls tell, if it is not nil, for each beginning and end, possibly from several goroutines at a time.
//
// The error joins the errors of all steps, except errors caused by the end of ctx. Run refuses a plan that Check
// refuses before anything begins.
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
	errs := make([]error, len(targets))
	for i, target := range slices.Collect(maps.Values(targets)) {
		wg.Go(func() { errs[i] = target.run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

type schedule struct {
	on      Subject
	tell    func(string)
	began   time.Time
	changes []change
}

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

// mendTime bounds the time to repair faults when the plan is cut short.
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

// inOrder sorts the ends of faults before what begins at the same instant. A fault of no duration begins there
// too, so its end stays where it is, behind its beginning.
func inOrder(a, b change) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank(), b.rank()))
}

func (c change) rank() int {
	if c.begin || c.step.For == 0 {
		return 1
	}
	return 0
}

// mend repairs the remaining faults, the last one first.
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

// sleepUntil waits, and reports whether ctx has not ended.
func sleepUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-time.After(time.Until(at)):
		return true
	case <-ctx.Done():
		return false
	}
}
