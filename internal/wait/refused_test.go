package wait

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/slots"
)

// A waiter wants more permits than the semaphore still has, since its size was lowered. That error
// must not become the error of another waiter of the client, which wants one permit.
func TestRefusedRequestSaysNothingToOtherWaiters(t *testing.T) {
	qs, e := newQueues(t, 1)
	p := slots.NewPools(1, e.Jitter).Of("jobs")
	p.LearnSize(2, 1)
	waiterFor := func(n int) *waiter {
		s := specOf(1, p.Name())
		s.HandOver = false
		s.Slots = &slots.Request{Pool: p, Semaphore: "jobs", Want: n, Permits: 5}
		return qs.newWaiter(s, nil)
	}
	many, one := waiterFor(5), waiterFor(1)
	_, again, err := many.attempt(t.Context())
	require.ErrorContains(t, err, "5 of 2 permits")
	require.False(t, again.Useful)
	_, last := qs.obstacle(one)
	require.NoError(t, last)
	require.ErrorContains(t, one.giveUpReason(nil), "no quorum")

	qs.removeIfQueued(many)
	qs.removeIfQueued(one)
	qs.Close()
	e.Close()
	e.Nodes.Close()
}
