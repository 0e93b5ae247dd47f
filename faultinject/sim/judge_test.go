package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// latch records a call of the latch a. A Count finds that one id is missing.
func latch(r *history.Recorder, e history.Event, err error) {
	e.Worker, e.Name = 1, "a"
	_, _ = r.Latch(e, func() (int, error) { return 1, err })
}

// TestJudgeNamesThePromise feeds the judge wrong histories, one for each rule that package history checks for the
// simulation.
func TestJudgeNamesThePromise(t *testing.T) {
	valid := func() error { return nil }
	over := func() error { return quorumlock.ErrReleased }
	for name, test := range map[string]struct {
		act     func(r *history.Recorder)
		excused bool
		want    Promise // none if it is legal
	}{
		"one after the other": {act: func(r *history.Recorder) {
			a := r.Acquire(1, "a").Granted("A1", 1)
			_ = a.Act(valid)
			_ = a.Release(valid)
			_ = r.Acquire(2, "a").Granted("A2", 2).Act(valid)
		}},
		"two leases at once": {want: Exclusion, act: func(r *history.Recorder) {
			a, b := r.Acquire(1, "a").Granted("A1", 1), r.Acquire(2, "a").Granted("A2", 2)
			_ = a.Act(valid)
			_ = b.Act(valid)
		}},
		"a reader beside a writer": {want: Exclusion, act: func(r *history.Recorder) {
			a, b := r.Acquire(1, "a").Granted("A1", 1), r.AcquireRead(2, "a").Granted("A2", 2)
			_ = a.Act(valid)
			_ = b.Act(valid)
		}},
		"one permit twice": {want: Exclusion, act: func(r *history.Recorder) {
			a, b := r.AcquirePermits(1, "a", 1, 2).Granted("A1", 1, 0), r.AcquirePermits(2, "a", 1, 2).Granted("A2", 2, 0)
			_ = a.Act(valid)
			_ = b.Act(valid)
		}},
		"a permit too many": {want: Exclusion, act: func(r *history.Recorder) {
			r.AcquirePermits(1, "a", 1, 2).Granted("A1", 1, 2)
		}},
		"a smaller token": {want: Tokens, act: func(r *history.Recorder) {
			r.Acquire(1, "a").Granted("A1", 2)
			r.Acquire(2, "a").Granted("A2", 1)
		}},
		"one token twice": {want: Tokens, act: func(r *history.Recorder) {
			r.Acquire(1, "a").Granted("A1", 1)
			r.Acquire(2, "a").Granted("A2", 1)
		}},
		"a reader with a token from before its request": {want: Tokens, act: func(r *history.Recorder) {
			r.AcquireRead(1, "a").Granted("A1", 2)
			r.AcquireRead(2, "a").Granted("A2", 1)
		}},
		"readers that ask at the same time": {act: func(r *history.Recorder) {
			a, b := r.AcquireRead(1, "a"), r.AcquireRead(2, "a")
			a.Granted("A1", 2)
			b.Granted("A2", 1)
		}},
		"an act after a later grant": {want: Finality, act: func(r *history.Recorder) {
			b := r.Acquire(2, "a")
			a := r.Acquire(1, "a").Granted("A1", 1)
			b.Granted("A2", 2)
			_ = a.Act(valid)
		}},
		"a lease that revives": {want: Finality, act: func(r *history.Recorder) {
			a := r.Acquire(1, "a").Granted("A1", 1)
			_ = a.Act(over)
			_ = a.Act(valid)
		}},
		"a latch that is done too early": {want: Counting, excused: true, act: func(r *history.Recorder) {
			latch(r, history.Event{Kind: history.Set, Count: 1}, nil)
			latch(r, history.Event{Kind: history.Await}, nil)
		}},
		"a latch that is done after its deletion, as nodes forgot that": {excused: true, act: func(r *history.Recorder) {
			latch(r, history.Event{Kind: history.Set, Count: 1}, nil)
			latch(r, history.Event{Kind: history.CountDown, ID: "p"}, nil)
			latch(r, history.Event{Kind: history.Delete}, nil)
			latch(r, history.Event{Kind: history.Await}, nil) // nodes forgot the deletion
		}},
		"a count-down that is missing": {want: Counting, act: func(r *history.Recorder) {
			latch(r, history.Event{Kind: history.Set, Count: 1}, nil)
			latch(r, history.Event{Kind: history.CountDown, ID: "p"}, nil)
			latch(r, history.Event{Kind: history.Count}, nil)
		}},
		"a refusal without a reason": {want: Counting, act: func(r *history.Recorder) {
			latch(r, history.Event{Kind: history.Set, Count: 1}, nil)
			latch(r, history.Event{Kind: history.CountDown, ID: "p"}, quorumlock.ErrLatchNotSet)
		}},
		"a count-down that is missing, as nodes forgot it": {excused: true, act: func(r *history.Recorder) {
			latch(r, history.Event{Kind: history.Set, Count: 1}, nil)
			latch(r, history.Event{Kind: history.CountDown, ID: "p"}, nil)
			latch(r, history.Event{Kind: history.Count}, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(&Case{Nodes: []Clock{{Rate: 1}}}, false)
			w.latch.excused = test.excused
			test.act(w.log.Recorder("c1", w.ticks))
			w.judge()
			if test.want == "" {
				require.Empty(t, w.violations)
				return
			}
			require.NotEmpty(t, w.violations)
			require.Equal(t, test.want, w.violations[0].Promise, "%v", w.violations)
		})
	}
}
