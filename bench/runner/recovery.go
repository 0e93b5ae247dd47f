package runner

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/cluster"
)

// recovery records the times of a node's restart, by [cell.Now].
type recovery struct {
	killed, back, gave int64 // gave is 0 if it granted none
}

// restart restarts a node and polls, until a deadline, whether it grants locks again. Callers hold their locks
// briefly, so it may take several polls to see one.
func (m *measurement) restart(ctx context.Context, deadline time.Time) (*recovery, error) {
	const look = 3 * time.Millisecond
	r := &recovery{killed: cell.Now()}
	if err := m.nodes.Restart(ctx); err != nil {
		return nil, err
	}
	r.back = cell.Now()
	var names []string
	for i := range m.cell.Callers {
		names = append(names, cell.LockName(i))
	}
	for ; time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(look) {
		gave, err := m.nodes.Gave(ctx, names)
		if err != nil {
			return nil, err
		}
		if gave {
			r.gave = cell.Now()
			break
		}
	}
	return r, nil
}

// of returns the recovery as part of a result. Measuring began at began.
func (r *recovery) of(began int64, pause float64, timeline []int64) *cell.Recovery {
	seconds := func(from, to int64) float64 { return time.Duration(to - from).Seconds() }
	c := &cell.Recovery{
		Killed: seconds(began, r.killed), Back: seconds(r.killed, r.back), Never: r.gave == 0, Pause: pause,
	}
	if r.gave > 0 {
		c.Gives = seconds(r.back, r.gave)
	}
	c.Phases(timeline)
	return c
}

// breakNodes injects the cell's fault at its time.
func (m *measurement) breakNodes(ctx context.Context) (*recovery, error) {
	deadline := time.Now().Add(m.cell.Duration)
	time.Sleep(m.cell.After)
	switch {
	case m.nodes == nil:
		return nil, nil
	case m.cell.Fault == cluster.Restarted:
		return m.restart(ctx, deadline)
	default:
		return nil, m.nodes.Break(ctx, m.cell.Fault, m.cell.Bad)
	}
}
