package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// waitsFor bounds short waits.
const waitsFor = 10 * time.Second

// TestMemoryLossOfAMajorityExcusesLatchesInUse: the loss of a majority's memory excuses only a latch that was in use, and only
// from some promises.
func TestMemoryLossOfAMajorityExcusesLatchesInUse(t *testing.T) {
	event := func(op uint64, kind history.Kind, id string, count int, call time.Duration) history.Event {
		return history.Event{
			Client: "c1", Op: op, Kind: kind, Of: history.Latch, Name: "latch", ID: id, Count: count, Call: call, Return: call + 1,
		}
	}
	lost := []history.Event{
		event(1, history.Set, "", 2, 10), event(2, history.CountDown, "a", 0, 20), event(3, history.Count, "", 2, 30),
	}
	early := []history.Event{
		event(1, history.Set, "", 2, 10), event(2, history.CountDown, "a", 0, 20), event(3, history.Await, "", 0, 30),
	}
	for name, test := range map[string]struct {
		events     []history.Event
		losses     []loss
		violations int
	}{
		"no node forgot":                         {lost, nil, 1},
		"a minority forgot":                      {lost, []loss{{0, 12, 13}, {1, 14, 15}, {1, 25, 26}}, 1},
		"a majority forgot":                      {lost, []loss{{0, 12, 13}, {1, 14, 15}, {2, 25, 26}}, 0},
		"a majority forgot before":               {lost, []loss{{0, 1, 2}, {1, 3, 4}, {2, 5, 6}}, 1},
		"one of a majority forgot after":         {lost, []loss{{0, 12, 13}, {1, 14, 15}, {2, 35, 36}}, 1},
		"a majority forgot, and it is too early": {early, []loss{{0, 12, 13}, {1, 14, 15}, {2, 25, 26}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := history.New(test.events...)
			require.NoError(t, err)
			a := &activeRun{
				Config: Config{Servers: make([]faultinject.Server, 5)}, losses: test.losses,
				report: &Report{},
			}
			a.blame(h, history.Check(h, time.Minute))
			require.Len(t, a.report.Violations, test.violations, "%v", a.report.Violations)
		})
	}
}

// TestMemoryLossOfAMajorityExcusesTheSizeOfASemaphore: only one that was set before, and never a slot with two holders.
func TestMemoryLossOfAMajorityExcusesTheSizeOfASemaphore(t *testing.T) {
	grant := func(op uint64, token uint64, slot int) history.Event {
		return history.Event{
			Client: "c1", Op: op, Kind: history.Acquire, Of: history.Semaphore, Name: "sized", Owner: string(rune('a' + op)),
			Token: token, Permits: 1, Slots: []int{slot}, Size: 3, Call: time.Duration(10 * op), Return: time.Duration(10*op + 1),
		}
	}
	act := func(op, lease uint64, of history.Event) history.Event {
		of.Op, of.Kind, of.Lease, of.Call, of.Return = op, history.Act, lease, time.Duration(10*op), time.Duration(10*op+1)
		return of
	}
	resize := history.Event{
		Client: "c1", Op: 1, Kind: history.Resize, Of: history.Semaphore, Name: "sized", Size: 1, Call: 10, Return: 11,
	}
	majority := []loss{{0, 12, 13}, {1, 14, 15}, {2, 15, 16}}
	for name, test := range map[string]struct {
		events     []history.Event
		losses     []loss
		violations int
	}{
		"beyond the size":                      {[]history.Event{resize, grant(2, 1, 2)}, nil, 1},
		"beyond the size that was forgotten":   {[]history.Event{resize, grant(2, 1, 2)}, majority, 0},
		"beyond the size of the configuration": {[]history.Event{grant(2, 1, 3)}, majority, 1},
		"two holders of one slot": {
			[]history.Event{resize, grant(2, 1, 0), grant(3, 2, 0), act(4, 2, grant(2, 1, 0)), act(5, 3, grant(3, 2, 0))}, majority, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := history.New(test.events...)
			require.NoError(t, err)
			a := &activeRun{
				Config: Config{Servers: make([]faultinject.Server, 5)}, losses: test.losses,
				report: &Report{},
			}
			a.blame(h, history.Check(h, time.Minute))
			require.Len(t, a.report.Violations, test.violations, "%v", a.report.Violations)
		})
	}
}
