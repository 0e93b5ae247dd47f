package realtest_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// longForm makes open-ended tests run in their long form (make test-long, every night). In the short
// form, each of these tests runs until it has seen the events that it needs.
var longForm = flag.Bool("long", false, "run tests in their long form: more cases, more rounds, more leases")

var soakSpan = flag.Duration("soak", 0, "how long TestRealNoLostWake runs, but at least for two storms")

// in returns the next value of a channel. If none comes in time, it fails the test.
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

// atMost limits the waiting time of a test in its short form on a slow machine.
const atMost = time.Minute

// withDeadline returns a context that bounds operations that must end.
func withDeadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
