package fleet

import "flag"

// longForm selects the long form of the tests that have one, as make test-long does.
var longForm = flag.Bool("long", false, "run tests in their long form: more cases, more rounds, more leases")

// Longer returns short, or whole if the tests run in their long form (-long).
func Longer[T any](short, whole T) T {
	if *longForm {
		return whole
	}
	return short
}
