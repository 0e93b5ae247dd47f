package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// now reads the time since boot. On macOS both CLOCK_MONOTONIC and
// CLOCK_MONOTONIC_RAW count sleep (clock_gettime(3)). The former is computed
// from the wall clock, in microseconds, and has been seen to go back; the
// latter is the continuous time of the kernel, never adjusted.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		// Any other clock in its place would break exclusion in silence.
		panic(fmt.Sprintf("clock: cannot read CLOCK_MONOTONIC_RAW: %v", err))
	}
	return time.Duration(ts.Nano())
}
