package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/workload"
)

// startResource starts a resource, and returns it with a worker's connection.
func startResource(t *testing.T) (*resource, resourceConn) {
	t.Helper()
	r, err := newResource()
	require.NoError(t, err)
	t.Cleanup(r.close)
	d, err := dial(r.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return r, d
}

func TestResourceRefusesStaleTokens(t *testing.T) {
	r, d := startResource(t)
	for _, part := range []workload.Part{
		{Name: "delta", Token: 5},
		{Name: "delta", Token: 7, Reads: true}, // is not remembered
		{Name: "delta", Token: 6},
		{Name: "delta", Token: 5, Reads: true}, // refused
		{Name: "delta", Token: 5},              // refused
		{Name: "gamma", Token: 1, Slots: []int{0}},
		{Name: "gamma", Token: 9, Slots: []int{1}},
		{Name: "gamma", Token: 2, Slots: []int{0, 2}},
		{Name: "gamma", Token: 8, Slots: []int{1}}, // refused
	} {
		require.NoError(t, d.show(t.Context(), part))
	}
	require.Equal(t, map[string]int{"delta": 2, "gamma#1": 1}, r.refused)
}

func TestResourceRecordsUses(t *testing.T) {
	r, d := startResource(t)
	began := time.Now()
	require.False(t, r.used([]Kind{Latch}, began))
	require.NoError(t, d.done(t.Context()))
	require.True(t, r.used([]Kind{Latch}, began))
	require.NoError(t, d.show(t.Context(), workload.Part{Name: "gamma", Token: 1, Slots: []int{1}}))
	require.True(t, r.used([]Kind{Latch, Semaphore}, began))
	require.False(t, r.used([]Kind{Semaphore, RWLock}, began))
}

func TestResourceIsIdleAfterTheLastUse(t *testing.T) {
	r, d := startResource(t)
	require.NoError(t, d.show(t.Context(), workload.Part{Name: "delta", Token: 1}))
	require.False(t, r.idle())
	require.NoError(t, d.Close())
	require.Eventually(t, r.idle, waitsFor, waitsFor/1000)
}
