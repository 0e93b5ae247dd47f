//go:build !linux && !darwin && !windows

package clock

import "time"

var start = time.Now()

// now falls back on Go's monotonic time, which may stop in a suspend.
func now() time.Duration { return time.Since(start) }
