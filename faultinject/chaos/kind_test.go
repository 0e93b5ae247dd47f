package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/history"
)

func TestParseKinds(t *testing.T) {
	kinds, err := ParseKinds("latch, lock,latch")
	require.NoError(t, err)
	require.Equal(t, []Kind{Latch, Lock}, kinds)
	for _, text := range []string{"", "lock,", "Lock", "locks"} {
		_, err := ParseKinds(text)
		require.ErrorContains(t, err, "no kind is called", "%q", text)
	}
}

func TestKindOf(t *testing.T) {
	require.Equal(t, Join, kindOf(history.Object{Of: history.Semaphore, Name: "pool"}))
	require.Equal(t, RWLock, kindOf(history.Object{Of: history.Lock, Name: "delta"}))
	require.Equal(t, Latch, kindOf(history.Object{Of: history.Latch, Name: "latch-1-1"}))
}
