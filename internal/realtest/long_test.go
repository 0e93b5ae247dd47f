package realtest_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// longest is for how long any one test may go on: many times longer than each does on a machine that
// has nothing else to do, and short enough that the whole package still has time left then.
func longest() time.Duration {
	return longer(5*time.Minute, time.Hour) + *soakSpan + *sharesSpan
}

// in requires that something comes through a channel, which it returns: that it does not come is to be
// a failure of this test, and not the end of the time of all.
func in[T any](t testing.TB, channel <-chan T, what string) T {
	t.Helper()
	select {
	case it := <-channel:
		return it
	case <-time.After(atMost):
		require.Fail(t, "within "+atMost.String()+": "+what)
		panic("not reached")
	}
}

// atMost bounds what a test waits for in its short form, on whatever machine.
const atMost = time.Minute
