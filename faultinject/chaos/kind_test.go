package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/history"
)

// ParseKinds parses names of kinds, separated by commas.
func ParseKinds(text string) ([]Kind, error) {
	var kinds []Kind
	for word := range strings.SplitSeq(text, ",") {
		kind := Kind(strings.TrimSpace(word))
		if !slices.Contains(Kinds(), kind) {
			return nil, fmt.Errorf("chaos: no kind is called %q; there are %v", word, Kinds())
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

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
