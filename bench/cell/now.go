package cell

import "golang.org/x/sys/unix"

// Now returns the time in nanoseconds by a monotonic clock, which all processes share.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every system has it
	return t.Nano()
}
