package wait

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
