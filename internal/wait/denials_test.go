package wait

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/slots"
)

func TestDenialsAreForgotten(t *testing.T) {
	var d denials
	key := func(i int) queueKey { return queueKey{id: strconv.Itoa(i)} }
	require.False(t, d.recent(key(0), 0))
	d.record(key(0), time.Second)
	require.True(t, d.recent(key(0), time.Second+denialMemory-1))
	require.False(t, d.recent(key(0), time.Second+denialMemory))
	require.False(t, d.recent(key(1), time.Second))
	for i := range 3 * maxDenials {
		d.record(key(i), time.Second)
		require.True(t, d.recent(key(i), time.Second))
		require.LessOrEqual(t, len(d), maxDenials)
	}
	last := len(d)
	d.record(key(3*maxDenials-1), 2*time.Second)
	require.Len(t, d, last, "a denial that is known takes no more room")
}

// Only denials that a first attempt asks for are recorded: others would push them out.
func TestOnlyUsefulDenialsAreRecorded(t *testing.T) {
	qs, e := newQueues(t, 1)
	for _, c := range []struct {
		kind    string
		names   []string
		change  func(*lease.Spec)
		records bool
	}{
		{"a lock", []string{"a"}, func(*lease.Spec) {}, true},
		{"several names", []string{"b", "c"}, func(*lease.Spec) {}, false},
		{"a reader", []string{"d"}, func(s *lease.Spec) { s.Reads = true }, false},
		{"a waiter that spins", []string{"e"}, func(s *lease.Spec) { s.Spins = true }, false},
		{"permits", []string{"f"}, func(s *lease.Spec) { s.Slots = &slots.Request{} }, false},
	} {
		s := specOf(1, c.names...)
		c.change(s)
		before := len(qs.denials)
		w := qs.newWaiter(s, nil)
		w.planNext(lease.Retry{Useful: true}, lease.ErrHeld)
		require.Equal(t, c.records, len(qs.denials) > before, c.kind)
		w.finish(nil)
	}
	qs.Close()
	e.Close()
	e.Nodes.Close()
}
