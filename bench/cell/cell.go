// Package cell declares the types that the runner, the workers and the report share: a cell, which is one thing to
// measure, and its result.
package cell

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/bench/cluster"
)

// Load is the work that callers do while a cell is measured.
type Load string

// The loads.
const (
	// Cycle: each caller acquires and releases a lock of its own, which is free.
	Cycle Load = "cycle"
	// NewNames is like Cycle, with a name that was never used before in each operation.
	NewNames Load = "newnames"
	// Pass: all callers want the same lock. A caller asks again only after another caller held the lock.
	Pass Load = "pass"
	// Wait: all callers wait for one lock that another process holds all the time.
	Wait Load = "wait"
	// WaitApart: each caller waits for a lock of its own, and another process holds all of these all the time.
	WaitApart Load = "waitapart"
	// Deny: another process holds the lock, or all permits, and each caller tries to acquire it again and again. An
	// operation is an attempt that is denied.
	Deny Load = "deny"
	// Hold: each caller holds a lock of its own all the time.
	Hold Load = "hold"
)

// Overtime is how long callers that wait until the end go on beyond the measured time. The runner counts the servers' work in a
// time of its own, and would otherwise count the scripts by which a thousand callers leave.
const Overtime = time.Second

// Contended reports whether all callers want the same lock.
func (l Load) Contended() bool { return l == Pass || l == Wait || l == Deny }

// Waits reports whether all callers wait until the end.
func (l Load) Waits() bool { return l == Wait || l == WaitApart }

// Held reports whether a process of its own holds what the callers want.
func (l Load) Held() bool { return l.Waits() || l == Deny }

// Cell is one combination of settings that is measured.
type Cell struct {
	Scenario string `json:"scenario"`
	Peer     string `json:"peer"`
	Load     Load   `json:"load"`
	// Callers is their number in all Processes together.
	Callers   int `json:"callers"`
	Processes int `json:"processes"`
	Nodes     int `json:"nodes"`
	// Fault hits Bad of the nodes as measuring begins.
	Fault cluster.Fault `json:"fault"`
	Bad   int           `json:"bad"`
	// Patience is how long an acquire waits before it gives up; 0 for as long as it takes.
	Patience time.Duration `json:"patienceNs"`
	// Duration is the measured time. It starts after Settle, during which the load already runs.
	Duration time.Duration `json:"durationNs"`
	Settle   time.Duration `json:"settleNs"`
	// TTL is the time after which nodes drop a lock that is not renewed.
	TTL time.Duration `json:"ttlNs"`
}

// LockName is the name of the lock in that slot of the witness.
func LockName(slot int) string { return "bench:" + strconv.Itoa(slot) }

// Size describes the number of callers in words.
func (c Cell) Size() string {
	if c.Processes == 1 {
		return strconv.Itoa(c.Callers)
	}
	return fmt.Sprintf("%d in %d", c.Callers, c.Processes)
}

// Variant describes the fault of the nodes, or the patience of the callers, in words.
func (c Cell) Variant() string {
	switch {
	case c.Patience > 0:
		return fmt.Sprintf("%v of patience", c.Patience)
	case c.Fault == cluster.None:
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
	if v := c.Variant(); v != "healthy" {
		parts = append(parts, v)
	}
	return strings.Join(append(parts, c.Peer), "/")
}

// Now returns the time in nanoseconds by a monotonic clock, which all processes share.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every system has it
	return t.Nano()
}
