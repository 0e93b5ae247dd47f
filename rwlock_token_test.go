package quorumlock_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// contended has somebody write, and a contender leave a larger token on the first node only. It
// returns the lease of the writer, which is over.
func (f *fleet) contended(t *testing.T) *quorumlock.Lease {
	t.Helper()
	writer := held(t, f.client().RWLock("job").Write())
	free(t, writer)
	time.Sleep(time.Millisecond) // or the contender proposes the same token
	contender, wires := f.wired()
	wires[1].severed.Store(true)
	wires[2].severed.Store(true)
	require.ErrorIs(t, refuses(t, contender.RedLock("job")), quorumlock.ErrNoQuorum)
	settled()
	return writer
}

// A contender leaves a larger token on one node. A reader that is told of it by its majority
// acts under that, and has written it to a majority before: no later reader acts under a smaller.
func TestAReaderWritesItsTokenBack(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		writer := f.contended(t)

		c, spies := f.spied()
		f.stop(1)
		reader := held(t, c.RWLock("job").Read()) // of the first and the third
		settled()
		require.Greater(t, reader.Token(), writer.Token())
		require.Equal(t, []int{1, 2}, []int{spies[0].asked(), spies[2].asked()}, "only who has not got it is asked again")
		f.start(1)
		f.stop(0)
		time.Sleep(time.Second)
		later := held(t, f.client().RWLock("job").Read()) // of the others
		require.Equal(t, reader.Token(), later.Token())
		free(t, reader, later)
		f.start(0)
	})
}

// What all nodes have told is decided without another round: a token that one of them alone
// knows is nobody's.
func TestAReaderOfAllNodesNeedsOneRound(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		writer := f.contended(t)

		c, slow := f.wired()
		slow[0].slow.Store(int64(time.Millisecond))
		reader := held(t, c.RWLock("job").Read())
		require.Equal(t, writer.Token(), reader.Token())
		free(t, reader)
	})
}

// The round that writes a token back fails: the reader gets nothing, and leaves nothing.
func TestAReaderThatCannotWriteBack(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		contender, wires := f.wired()
		wires[1].severed.Store(true)
		wires[2].severed.Store(true)
		require.ErrorIs(t, refuses(t, contender.RedLock("job")), quorumlock.ErrNoQuorum)
		settled()

		c, spies := f.spied()
		f.stop(1)
		spies[2].set(func(s *spy) { s.after = func() { f.stop(2) } })
		require.ErrorIs(t, refuses(t, c.RWLock("job").Read()), quorumlock.ErrNoQuorum)
		spies[2].set(func(s *spy) { s.after = nil })
		f.start(1, 2)
		time.Sleep(5 * time.Second)
		f.noKeys()
		free(t, held(t, f.client().RWLock("job").Write()))
	})
}

// Writers, readers, and readers that were writers come one after another, by clients with
// different clocks, while nodes fail and forget. The tokens of writers grow, and a reader's is
// never smaller than one before it.
func TestReadTokensGrowWhateverTheClocks(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
				rng := rand.New(rand.NewPCG(seed, 7))
				var locks []*quorumlock.RWLock
				for range 4 {
					by := time.Duration(rng.IntN(1900)-950) * time.Millisecond
					c := f.client(func(cfg *quorumlock.Config) { cfg.Clock = ahead{f.clock, by} })
					locks = append(locks, c.RWLock("job"))
				}
				last, reads, writes := uint64(0), 0, 0
				for i := range 400 {
					down := rng.Perm(5)[:rng.IntN(3)]
					f.stop(down...)
					rw := locks[rng.IntN(len(locks))]
					side, writer := rw.Read(), rng.IntN(3) == 0
					if writer {
						side = rw.Write()
					}
					lease, err := side.TryAcquire(t.Context())
					switch {
					case err != nil:
					case writer:
						require.Greater(t, lease.Token(), last)
						writes++
					default:
						require.GreaterOrEqual(t, lease.Token(), last)
						reads++
					}
					if err == nil {
						last = lease.Token()
						if writer && rng.IntN(2) == 0 {
							_ = rw.Downgrade(t.Context(), lease)
						}
						_ = lease.Release(t.Context())
					}
					f.start(down...)
					pause := time.Duration(rng.IntN(1000)) * time.Millisecond
					if i%20 == 0 {
						pause = time.Duration(rng.IntN(30)) * time.Second
					}
					if i%40 == 7 {
						f.nodes[rng.IntN(5)].Flush()
						pause = recovery
					}
					time.Sleep(pause)
				}
				t.Logf("%d reads, %d writes", reads, writes)
				require.Greater(t, reads, 50)
				require.Greater(t, writes, 20)
			})
		})
	}
}

// A lease's token is still refused by nobody when all nodes have forgotten it.
func TestAReaderAfterALongTime(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		rw := f.client().RWLock("job")
		writer := held(t, rw.Write())
		free(t, writer)
		time.Sleep(2 * recovery)
		first := held(t, rw.Read())
		require.Greater(t, first.Token(), writer.Token())
		time.Sleep(recovery / 2)
		second := held(t, f.client().RWLock("job").Read())
		require.Equal(t, first.Token(), second.Token(), "readers that come after each other share it")
		free(t, first, second)
		settled()
		next := held(t, rw.Write())
		require.Greater(t, next.Token(), second.Token())
		free(t, next)
	})
}
