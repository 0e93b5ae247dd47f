package rwlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// contended lets a writer acquire and release the lock. Then a failed contender leaves a larger token on the first node
// only. contended returns the writer's lease, which has ended.
func contended(t *testing.T, f *fleet.Fleet) *quorumlock.Lease {
	t.Helper()
	writer := fleet.MustAcquire(t, f.Client().RWLock("job").Write())
	free(t, writer)
	time.Sleep(time.Millisecond) // Otherwise the contender proposes the same token.
	contender, wires := f.SpiedClient()
	wires[1].Severed.Store(true)
	wires[2].Severed.Store(true)
	require.ErrorIs(t, fleet.MustBeRefused(t, contender.RedLock("job")), quorumlock.ErrNoQuorum)
	fleet.Settle()
	return writer
}

// A reader adopts the largest token that its majority reports. It writes this token to a majority before Acquire returns,
// so that no later reader gets a smaller one.
func TestReaderWritesItsTokenBack(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		writer := contended(t, f)

		c, spies := f.SpiedClient()
		f.Stop(1)
		reader := fleet.MustAcquire(t, c.RWLock("job").Read()) // on the first and the third node
		fleet.Settle()
		require.Greater(t, reader.Token(), writer.Token())
		require.Equal(t, []int{1, 2}, []int{spies[0].Asked(), spies[2].Asked()}, "only the node without the token is asked again")
		f.Start(1)
		f.Stop(0)
		time.Sleep(time.Second)
		later := fleet.MustAcquire(t, f.Client().RWLock("job").Read()) // on the other two nodes
		require.Equal(t, reader.Token(), later.Token())
		free(t, reader, later)
		f.Start(0)
	})
}

// All nodes answer a reader, and only one of them knows the largest token. No majority took it, so it belongs to no
// holder, and the reader need not write it back.
func TestReaderOfAllNodesNeedsOneRound(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		writer := contended(t, f)

		c, slow := f.SpiedClient()
		slow[0].Slow.Store(int64(time.Millisecond))
		reader := fleet.MustAcquire(t, c.RWLock("job").Read())
		require.Equal(t, writer.Token(), reader.Token())
		free(t, reader)
	})
}

// Writing the token back fails. The reader gets no lease, and leaves no keys on the nodes.
func TestReaderThatCannotWriteBackFails(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		contender, wires := f.SpiedClient()
		wires[1].Severed.Store(true)
		wires[2].Severed.Store(true)
		require.ErrorIs(t, fleet.MustBeRefused(t, contender.RedLock("job")), quorumlock.ErrNoQuorum)
		fleet.Settle()

		c, spies := f.SpiedClient()
		f.Stop(1)
		spies[2].Set(func(s *fleet.Spy) { s.After = fleet.OnAcquire(func() { f.Stop(2) }) })
		require.ErrorIs(t, fleet.MustBeRefused(t, c.RWLock("job").Read()), quorumlock.ErrNoQuorum)
		spies[2].Set(func(s *fleet.Spy) { s.After = nil })
		f.Start(1, 2)
		time.Sleep(5 * time.Second)
		f.RequireNoKeys()
		free(t, fleet.MustAcquire(t, f.Client().RWLock("job").Write()))
	})
}

// The nodes know the token of the last writer, however long ago it wrote. All readers act under it.
func TestReaderTokenLongAfterTheWriter(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		rw := f.Client().RWLock("job")
		writer := fleet.MustAcquire(t, rw.Write())
		free(t, writer)
		time.Sleep(2 * fleet.RecoveryTime)
		first := fleet.MustAcquire(t, rw.Read())
		require.Equal(t, writer.Token(), first.Token())
		time.Sleep(2 * time.Hour)
		second := fleet.MustAcquire(t, f.Client().RWLock("job").Read())
		require.Equal(t, first.Token(), second.Token(), "consecutive readers have the same token")
		free(t, first, second)
		fleet.Settle()
		next := fleet.MustAcquire(t, rw.Write())
		require.Greater(t, next.Token(), second.Token())
		free(t, next)
	})
}
