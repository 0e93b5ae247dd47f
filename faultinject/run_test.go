package faultinject_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
)

// diary is a subject that records its events and their times.
type diary struct {
	mu    sync.Mutex
	began time.Time
	lines []string
	// takes is how long each change takes, unless its context ends. fails is the change that fails.
	takes time.Duration
	fails string
}

var errBroken = errors.New("it cannot be broken")

func (d *diary) Begin(ctx context.Context, s faultinject.Step) error { return d.note(ctx, "begin", s) }

func (d *diary) End(ctx context.Context, s faultinject.Step) error { return d.note(ctx, "end", s) }

func (d *diary) note(ctx context.Context, what string, s faultinject.Step) error {
	d.mu.Lock()
	line := fmt.Sprintf("%v %s %s %s", time.Since(d.began), what, s.Fault, s.Target())
	d.lines = append(d.lines, line)
	d.mu.Unlock()
	if d.takes > 0 {
		select {
		case <-time.After(d.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d.fails != "" && strings.HasSuffix(line, d.fails) {
		return errBroken
	}
	return nil
}

func play(ctx context.Context, t *testing.T, d *diary, text string) error {
	t.Helper()
	plan, err := faultinject.ParsePlan(strings.NewReader(text))
	require.NoError(t, err)
	d.began = time.Now()
	return plan.Run(ctx, d, nil)
}

func TestRunKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		require.NoError(t, play(t.Context(), t, d, `
			3s flush n1
			1s pause n2 for 4s
			2s freeze c1 for 500ms
		`))
		require.Equal(t, []string{
			"1s begin pause n2", "2s begin freeze c1", "2.5s end freeze c1", "3s begin flush n1", "5s end pause n2",
		}, d.lines)
	})
}

// A fault of no duration begins before it ends, and the target is whole afterwards.
func TestRunFaultWithoutDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		require.NoError(t, play(t.Context(), t, d, "1s kill n1 for 1s\n2s wipe n1 for 0s\n2s pause n1 for 1s"))
		require.Equal(t, []string{
			"1s begin kill n1", "2s end kill n1", "2s begin wipe n1", "2s end wipe n1", "2s begin pause n1", "3s end pause n1",
		}, d.lines)
	})
}

// TestRunSlowTargets: a slow change of one target does not delay the others.
func TestRunSlowTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{takes: 1500 * time.Millisecond}
		require.NoError(t, play(t.Context(), t, d, "1s kill n1 for 1s\n1.2s kill n2 for 5s\n4.1s kill n1 for 1s"))
		require.Equal(t, []string{
			"1s begin kill n1", "1.2s begin kill n2", "2.5s end kill n1", "4.1s begin kill n1", "5.6s end kill n1", "6.2s end kill n2",
		}, d.lines)
	})
}

func TestRunMendsWhenCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		d := &diary{}
		require.NoError(t, play(ctx, t, d, "1s pause n1 for 1h\n1.5s flush n2\n3s kill n2 for 1s"))
		require.Equal(t, []string{"1s begin pause n1", "1.5s begin flush n2", "2s end pause n1"}, d.lines)
	})
}

// TestFailedStepEndsOnlyThePlanOfItsTarget: a step that fails ends the plan for its target, which is repaired; the others continue.
func TestFailedStepEndsOnlyThePlanOfItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{fails: "begin clock n1"}
		err := play(t.Context(), t, d, "1s pause n1 for 5s\n2s clock n1 by 1s for 1s\n7s kill n1 for 1s\n4s kill n2 for 1s")
		require.ErrorIs(t, err, errBroken)
		require.ErrorContains(t, err, "2s clock n1 by 1s for 1s")
		require.Equal(t, []string{
			"1s begin pause n1", "2s begin clock n1", "2s end clock n1", "2s end pause n1", "4s begin kill n2", "5s end kill n2",
		}, d.lines)
	})
}

// The context ends during a repair: the repair begins again.
func TestRunMendsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		d := &diary{takes: 1500 * time.Millisecond}
		require.NoError(t, play(ctx, t, d, "1s kill n1 for 2s"))
		require.Equal(t, []string{"1s begin kill n1", "3s end kill n1", "4s end kill n1"}, d.lines)
		require.Equal(t, 5500*time.Millisecond, time.Since(d.began))
	})
}

// A fault that cannot be repaired is reported, even if the plan was cut short.
func TestRunCannotMend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		d := &diary{fails: "end kill n1"}
		err := play(ctx, t, d, "1s kill n1 for 2s")
		require.ErrorIs(t, err, errBroken)
		require.ErrorContains(t, err, "ends: 1s kill n1 for 2s")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		d := &diary{takes: time.Hour}
		require.ErrorIs(t, play(ctx, t, d, "1s kill n1 for 2s"), context.DeadlineExceeded)
	})
}

// A fault that ends when the next on its target begins has ended before it, in any order of the plan.
func TestRunOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		require.NoError(t, play(t.Context(), t, d, "2s kill n1 for 1s\n1s kill n1 for 1s"))
		require.Equal(t, []string{"1s begin kill n1", "2s end kill n1", "2s begin kill n1", "3s end kill n1"}, d.lines)
	})
}

func TestRunRefusesInvalidPlans(t *testing.T) {
	d := &diary{}
	err := faultinject.Plan{{Fault: "explode"}}.Run(t.Context(), d, nil)
	require.ErrorContains(t, err, "explode")
	require.Empty(t, d.lines)
}
