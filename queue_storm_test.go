package quorumlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that the holder does not have is granted to one waiter after the other, who each give
// it back and so wake the next: that must not keep them busy.
func TestANodeThatTheHolderDoesNotHave(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		a, mine := f.spied()
		b, theirs := f.spied()
		f.take("job", "x", 0, 1)
		_ = acquiring(t.Context(), t, a.RedLock("job"))
		time.Sleep(time.Millisecond)
		_ = acquiring(t.Context(), t, b.RedLock("job"))
		time.Sleep(2 * time.Second)
		require.LessOrEqual(t, mine[0].asked(), 20)
		require.LessOrEqual(t, theirs[0].asked(), 20)
	})
}
