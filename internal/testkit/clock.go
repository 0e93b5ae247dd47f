package testkit

import (
	"math"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// Clock stands still until a test moves it. Its timers never fire, so it is for what only reads the time.
type Clock struct {
	mu   sync.Mutex
	now  time.Duration
	wall time.Time
}

// NewClock returns a clock at local time 0, whose wall clock shows wall.
func NewClock(wall time.Time) *Clock { return &Clock{wall: wall.Round(0)} }

// Now implements [clock.Clock].
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Wall implements [clock.Clock].
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Advance moves local time and the wall clock.
func (c *Clock) Advance(d time.Duration) { c.move(d, d) }

// StepWall moves the wall clock alone, forward or back.
func (c *Clock) StepWall(d time.Duration) { c.move(0, d) }

func (c *Clock) move(now, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.wall = c.now+now, c.wall.Add(wall)
}

// AfterFunc implements [clock.Clock].
func (*Clock) AfterFunc(time.Duration, func()) clock.Timer {
	return time.AfterFunc(math.MaxInt64, func() {})
}

// ThisCentury returns the clock of a bubble with a wall clock that is 25 years ahead. A bubble begins in the year 2000, when
// tokens had 15 digits. The fast paths of the scripts are for tokens of 16 digits, which they have since 2001.
func ThisCentury(c clock.Clock) clock.Clock { return thisCentury{c} }

type thisCentury struct{ clock.Clock }

func (c thisCentury) Wall() time.Time { return c.Clock.Wall().Add(25 * 365 * 24 * time.Hour) }
