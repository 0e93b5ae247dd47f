package cell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Load is what callers do.
type Load string

// The loads.
const (
	// Cycle has each caller take and give back a lock of its own, which is free.
	Cycle Load = "cycle"
	// Handoff has all callers take and give back one lock, as fast as they get it.
	Handoff Load = "handoff"
	// Pass is Handoff, but who had the lock asks again only after somebody else had it.
	Pass Load = "pass"
	// Wait has all callers wait for one lock that is held all the time.
	Wait Load = "wait"
	// Hold has each caller hold a lock of its own all the time.
	Hold Load = "hold"
)

// Contended reports whether callers want the same lock.
func (l Load) Contended() bool { return l == Handoff || l == Pass || l == Wait }

// Cell is one thing to measure.
type Cell struct {
	Scenario string `json:"scenario"`
	Peer     string `json:"peer"`
	Load     Load   `json:"load"`
	// Callers is how many there are in all Processes together.
	Callers   int `json:"callers"`
	Processes int `json:"processes"`
	Nodes     int `json:"nodes"`
	// Held is how many leases each process holds beside the load, where the peer renews them.
	Held int `json:"held,omitempty"`
	// Fault befalls Bad of the nodes, so long after measuring began.
	Fault cluster.Fault `json:"fault,omitempty"`
	Bad   int           `json:"bad,omitempty"`
	After time.Duration `json:"afterNs,omitempty"`
	// Duration is how long is measured, after a Settle in which the load is on already.
	Duration time.Duration `json:"durationNs"`
	Settle   time.Duration `json:"settleNs"`
	// TTL is how long nodes keep a lock that is not renewed.
	TTL time.Duration `json:"ttlNs"`
}

// LockName is the name of the lock for which the witness has that slot.
func LockName(slot int) string { return "bench:" + strconv.Itoa(slot) }

// Variant says what is done to the nodes, in words.
func (c Cell) Variant() string {
	if c.Fault == cluster.None {
		return "healthy"
	}
	return fmt.Sprintf("%d %s", c.Bad, c.Fault)
}

// Group is the same for cells that are compared with each other.
func (c Cell) Group() string {
	return fmt.Sprintf("%s/%s/callers=%d/processes=%d/nodes=%d", c.Scenario, c.Load, c.Callers, c.Processes, c.Nodes)
}

// String names the cell.
func (c Cell) String() string {
	parts := []string{c.Group()}
	if c.Fault != cluster.None {
		parts = append(parts, c.Variant())
	}
	return strings.Join(append(parts, c.Peer), "/")
}
