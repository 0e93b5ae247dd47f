package cell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Load is the work that callers do while a cell is measured.
type Load string

// The loads.
const (
	// Cycle: each caller acquires and releases a lock of its own, which is free.
	Cycle Load = "cycle"
	// Handoff: all callers acquire and release the same lock as fast as they can.
	Handoff Load = "handoff"
	// Pass is like Handoff, but a caller asks again only after another caller held the lock.
	Pass Load = "pass"
	// Wait: all callers wait for one lock that another process holds all the time.
	Wait Load = "wait"
	// Hold: each caller holds a lock of its own all the time.
	Hold Load = "hold"
)

// Contended reports whether callers want the same lock.
func (l Load) Contended() bool { return l == Handoff || l == Pass || l == Wait }

// Cell is one combination of settings that is measured.
type Cell struct {
	Scenario string `json:"scenario"`
	Peer     string `json:"peer"`
	Load     Load   `json:"load"`
	// Callers is their number in all Processes together.
	Callers   int `json:"callers"`
	Processes int `json:"processes"`
	Nodes     int `json:"nodes"`
	// Held is the number of leases that each process holds beside the load, if the peer renews leases.
	Held int `json:"held,omitempty"`
	// Fault hits Bad of the nodes soon after measuring began.
	Fault cluster.Fault `json:"fault,omitempty"`
	Bad   int           `json:"bad,omitempty"`
	After time.Duration `json:"afterNs,omitempty"`
	// Duration is the measured time. It starts after Settle, during which the load already runs.
	Duration time.Duration `json:"durationNs"`
	Settle   time.Duration `json:"settleNs"`
	// TTL is the time after which nodes drop a lock that is not renewed.
	TTL time.Duration `json:"ttlNs"`
}

// LockName is the name of the lock in that slot of the witness.
func LockName(slot int) string { return "bench:" + strconv.Itoa(slot) }

// Variant describes the fault of the nodes in words.
func (c Cell) Variant() string {
	if c.Fault == cluster.None {
		return "healthy"
	}
	return fmt.Sprintf("%d %s", c.Bad, c.Fault)
}

// Group is equal for cells that are compared with each other.
func (c Cell) Group() string {
	return fmt.Sprintf("%s/%s/callers=%d/processes=%d/nodes=%d", c.Scenario, c.Load, c.Callers, c.Processes, c.Nodes)
}

func (c Cell) String() string {
	parts := []string{c.Group()}
	if c.Fault != cluster.None {
		parts = append(parts, c.Variant())
	}
	return strings.Join(append(parts, c.Peer), "/")
}
