package quorumlock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// What the first of a line was told before somebody of it had the lock says nothing to who
// gives up later.
func TestWhatIsToldIsNotOutOfDate(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		old := held(t, f.client().RedLock("job"))
		job := f.client().RedLock("job").With(quorumlock.LockOptions{NoHandover: true})
		first := acquiring(t.Context(), t, job)
		require.NoError(t, old.Release(t.Context()))
		_ = first.has()
		ctx, cancel := context.WithCancel(t.Context())
		second := acquiring(ctx, t, job)
		f.pause(0, 1, 2)
		go func() { _ = first.lease.Release(t.Context()) }()
		settled() // the second is asking
		cancel()
		<-second.done
		require.ErrorIs(t, second.err, quorumlock.ErrNoQuorum)
		require.NotErrorIs(t, second.err, quorumlock.ErrHeld, "the first had it after that")
		f.resume(0, 1, 2)
	})
}
