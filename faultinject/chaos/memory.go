package chaos

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/quorum"
)

// loss is a period in which a node may have lost its memory.
type loss struct {
	node     int
	from, to time.Duration
}

// during applies a change to a node, and records when that may have made the node lose its memory.
func (a *arena) during(s faultinject.Step, change func() error) error {
	from := clock.System().Now()
	err := change()
	switch s.Fault {
	case faultinject.Stop, faultinject.Kill, faultinject.Wipe, faultinject.Lose, faultinject.Flush:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.losses = append(a.losses, loss{s.Node, from, clock.System().Now()})
	}
	return err
}

// forgotten reports whether so many nodes lost their memory while a latch was in use that a majority may not remember
// it. The latch may then lack count-downs, or not be set.
func (a *arena) forgotten(h *history.History, latch string) bool {
	var first, last time.Duration
	for _, e := range h.Events() {
		if e.Of == history.Latch && e.Names[0] == latch {
			if first == 0 {
				first = e.Call
			}
			last = max(last, e.Call, e.Return)
		}
	}
	var nodes []int
	for _, l := range a.losses {
		if l.from <= last && first <= l.to && !slices.Contains(nodes, l.node) {
			nodes = append(nodes, l.node)
		}
	}
	return len(nodes) > len(a.Servers)-quorum.Majority().Need(len(a.Servers))
}
