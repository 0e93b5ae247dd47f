package quorumlock_test

import (
	"flag"
	"time"
)

// longForm has tests that go on for as long as one likes do so: make test-long, every night. Without
// it each goes on until it has seen what it needs to see, which it says.
var longForm = flag.Bool("long", false, "run tests in their long form: more cases, more rounds, more leases")

// longer is one of two, the second in the long form.
func longer[T any](short, whole T) T {
	if *longForm {
		return whole
	}
	return short
}

// longest is for how long any one test may go on: many times longer than each does on a machine that
// has nothing else to do, and short enough that the whole package still has time left then.
func longest() time.Duration { return longer(5*time.Minute, time.Hour) }
