package faultinject

import (
	"math"
	"strconv"
	"time"
)

// Direction is a direction of data through a [Proxy]. Methods that take one also take BothWays.
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

// CutAction is the action after the bytes of [Proxy.CutAfter].
type CutAction uint8

// The actions.
const (
	// ThenHold cuts the direction, as [Proxy.Cut] does, for all connections.
	ThenHold CutAction = iota
	// ThenReset ends the connection that passed the last byte, with a RST to both sides. As on a network, it may
	// overtake data that the receiver has not read; on Linux and loopback, only data for which the receiver had no
	// room.
	ThenReset
	// ThenClose shuts down the direction of the connection that passed the last byte: its receiver reads the end of
	// the stream there, and later data of the sender is dropped. The other direction continues.
	ThenClose
)

// conditions apply to one direction of all connections. Guarded by the proxy's lock.
type conditions struct {
	latency, jitter time.Duration
	held            bool
	limit           *byteLimit
	link            *link // nil if the bandwidth is not limited

	received, passed uint64
}

// byteLimit is the number of bytes that pass before an action.
type byteLimit struct {
	left     int64
	reserved int64 // by writes under way
	then     CutAction
}

// due returns when data that arrived at m may continue; its luck, from 0 to 1, selects the jitter.
func (c *conditions) due(m mark) time.Time {
	jitter := time.Duration(m.luck * float64(c.jitter))
	return m.at.Add(c.latency + min(jitter, math.MaxInt64-c.latency)) // the sum does not overflow
}

// cut reports whether the direction is cut, or will be by the write in progress that passes the last byte before the
// cut: after a receiver has seen that byte, the direction counts as cut.
func (c *conditions) cut() bool {
	return c.held || c.limit != nil && c.limit.left == 0 && c.limit.then == ThenHold
}

// setRate sets the rate in bytes per second; zero, or less, is no limit. Portions in the queue ask again.
func (c *conditions) setRate(bytesPerSecond int64) {
	c.link = nil
	if bytesPerSecond > 0 {
		c.link = &link{rate: bytesPerSecond}
	}
}

// plain ends all conditions.
func (c *conditions) plain() {
	c.latency, c.jitter, c.held, c.limit = 0, 0, false, nil
	c.setRate(0)
}
