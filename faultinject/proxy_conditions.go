package faultinject

import (
	"strconv"
	"time"
)

// Direction says which way bytes go through a [Proxy]. Methods that take one take
// [BothWays] as well, and do the same for each.
type Direction uint8

// The directions.
const (
	// ToServer is from the client to the server.
	ToServer Direction = 1 << iota
	// ToClient is from the server to the client.
	ToClient
	// BothWays is each of the two.
	BothWays = ToServer | ToClient
)

// String returns the direction in words.
func (d Direction) String() string {
	switch d {
	case ToServer:
		return "to the server"
	case ToClient:
		return "to the client"
	case BothWays:
		return "both ways"
	default:
		return "direction " + strconv.Itoa(int(d))
	}
}

// CutAction is what happens when the bytes of [Proxy.CutAfter] have passed.
type CutAction uint8

// The actions.
const (
	// ThenHold cuts the direction, as [Proxy.Cut] does, for all connections.
	ThenHold CutAction = iota
	// ThenReset ends the connection that passed the last byte, with a RST to both sides. As
	// on a network, it may overtake bytes that the receiver has not read; on Linux and
	// loopback, only those that the receiver had no room for.
	ThenReset
	// ThenClose shuts down the direction of the connection that passed the last byte: its
	// receiver reads the end of the stream there, and what the sender sends from then on is
	// swallowed. The other direction goes on.
	ThenClose
)

// conditions are what bytes meet in one direction, on all connections. The proxy's lock
// guards them.
type conditions struct {
	latency, jitter time.Duration
	held            bool
	limit           *byteLimit
	// rate is in bytes per second, 0 for no limit; epoch changes with it, and busyUntil is
	// when the link will have sent all that it took.
	rate      int64
	epoch     int
	busyUntil time.Time

	received, passed uint64
}

// byteLimit is how much passes before an action.
type byteLimit struct {
	left     int64
	reserved int64 // by writes under way
	then     CutAction
}

// due is when what arrived then, with luck from 0 to 1, goes on.
func (c *conditions) due(m mark) time.Time {
	return m.at.Add(c.latency + time.Duration(m.luck*float64(c.jitter)))
}

// cut reports whether the direction is cut, or will be by the write under way that passes
// the last byte before it: whoever has seen that byte finds it cut.
func (c *conditions) cut() bool {
	return c.held || c.limit != nil && c.limit.left == 0 && c.limit.then == ThenHold
}

// pacing is how often a throttled flow sends.
const pacing = 10 * time.Millisecond

// slot is the time that the link needs for some bytes of one flow.
type slot struct {
	size, epoch int
	end         time.Time
}

// book gives a flow the next free time of the link, for up to n bytes.
func (c *conditions) book(n int, now time.Time) slot {
	portion := max(1, c.rate/int64(time.Second/pacing))
	size := min(int64(n), portion)
	start := now
	if c.busyUntil.After(now) {
		start = c.busyUntil
	}
	c.busyUntil = start.Add(time.Duration(float64(size) / float64(c.rate) * float64(time.Second)))
	return slot{size: int(size), epoch: c.epoch, end: c.busyUntil}
}

func (c *conditions) setRate(bytesPerSecond int64) {
	c.rate = max(bytesPerSecond, 0)
	c.epoch++
	c.busyUntil = time.Time{}
}

// plain ends all conditions.
func (c *conditions) plain() {
	c.latency, c.jitter, c.held, c.limit = 0, 0, false, nil
	c.setRate(0)
}
