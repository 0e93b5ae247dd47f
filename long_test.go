package quorumlock_test

import "flag"

// longForm has tests that go on for as long as one likes do so: make test-long, every night. Without
// it each goes on until it has seen what it needs to see, which it says.
var longForm = flag.Bool("long", false, "run tests in their long form: more cases, more rounds, more leases")

// Two tests go on for as long as they are told.
var (
	sharesSpan = flag.Duration("shares", 0, "how long TestRealShares measures each way to wait; 0 is until it has seen enough")
	soakSpan   = flag.Duration("soak", 0, "how long TestRealNoLostWake goes on; it is two storms at least")
)

// longer is one of two, the second in the long form.
func longer[T any](short, whole T) T {
	if *longForm {
		return whole
	}
	return short
}
