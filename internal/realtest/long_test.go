package realtest_test

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

// atMost bounds what a test waits for in its short form, on whatever machine.
const atMost = time.Minute
