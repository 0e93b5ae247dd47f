package realtest_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// TestRealReaderCommandsAreCounted requires one script on each node for a reader's uncontended operation.
func TestRealReaderCommandsAreCounted(t *testing.T) {
	c := startCluster(t, 5)
	rw := c.client(undisturbed).RWLock("a")
	ran := 0
	each := func(scripts int, what string, operate func()) {
		operate()
		ran += scripts
		for i := range c.servers {
			eventually(t, soon, func() bool { return c.calls(i) >= ran }, "node %[2]d ran the script for %[1]s", what, i)
			require.Equal(t, ran, c.calls(i), "scripts on node %d up to %s", i, what)
		}
	}
	cycle := func(scripts int) {
		var first, second *quorumlock.Lease
		each(scripts, "read", func() { first = acquire(t, rw.Read()) })
		each(1, "second reader", func() { second = acquire(t, rw.Read()) })
		each(scripts, "extend", func() { require.NoError(t, first.Extend(t.Context())) })
		each(scripts, "release", func() { require.NoError(t, first.Release(t.Context())) })
		each(1, "release of the last", func() { require.NoError(t, second.Release(t.Context())) })
		c.noKeys()
		each(scripts, "write", func() { first = acquire(t, rw.Write()) })
		each(1, "downgrade", func() { require.NoError(t, first.Downgrade(t.Context())) })
		each(1, "release of the reader", func() { require.NoError(t, first.Release(t.Context())) })
		c.noKeys()
	}
	cycle(2) // A server must load each script once.
	cycle(1)
}

// census records the contenders that are inside at one time.
type census struct {
	mu                      sync.Mutex
	readers, writers        map[*quorumlock.Lease]bool
	reads, writes, together int
	broken                  []string
	downgrades, lastWriter  uint64
}

func (s *census) enter(l *quorumlock.Lease, reads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.writers {
		if other.Err() == nil && l.Err() == nil {
			s.broken = append(s.broken, "a lease beside a writer's")
		}
	}
	if reads {
		s.readers[l] = true
		s.reads++
		s.together = max(s.together, len(s.readers))
		if l.Token() < s.lastWriter && l.Err() == nil {
			s.broken = append(s.broken, "a reader's token is smaller than the writer's")
		}
		return
	}
	for other := range s.readers {
		if other.Err() == nil && l.Err() == nil {
			s.broken = append(s.broken, "a writer's lease beside a reader's")
		}
	}
	if l.Token() <= s.lastWriter && l.Err() == nil {
		s.broken = append(s.broken, "a writer's token is not larger than the last")
	}
	s.writers[l] = true
	s.writes++
	s.lastWriter = max(s.lastWriter, l.Token())
}

func (s *census) downgrade(l *quorumlock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writers, l)
	s.readers[l] = true
	s.downgrades++
}

func (s *census) leave(l *quorumlock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, l)
	delete(s.writers, l)
}

// Many readers and writers contend, and servers hang in turn. Readers share the lock, a writer excludes all
// others, and each contender gets the lock.
func TestRealReadersAndWriters(t *testing.T) {
	t.Parallel()
	const clients, each, ttl = 4, 6, time.Second
	least := 10 * time.Second
	if testing.Short() {
		least = 3 * time.Second
	}
	c := startCluster(t, 5)
	s := &census{readers: map[*quorumlock.Lease]bool{}, writers: map[*quorumlock.Lease]bool{}}
	ctx, cancel := context.WithTimeout(t.Context(), atMost)
	defer cancel()
	var all sync.WaitGroup
	var shares [clients * each]atomic.Int64
	for i := range clients {
		rw := c.client(withDefaultTimeouts(ttl)).RWLock("job")
		for j := range each {
			me, reads := i*each+j, j > 0
			rng := rand.New(rand.NewPCG(uint64(me), 1))
			all.Go(func() {
				side := rw.Write()
				if reads {
					side = rw.Read()
				}
				for ctx.Err() == nil {
					lease, err := side.Acquire(ctx)
					if err != nil {
						assert.ErrorIs(t, err, ctx.Err(), "Acquire may fail only at the end of the test")
						return
					}
					s.enter(lease, reads)
					shares[me].Add(1)
					wait(ctx, time.Millisecond, time.Duration(2+rng.IntN(5))*time.Millisecond)
					if !reads && rng.IntN(3) == 0 {
						s.downgrade(lease)
						_ = lease.Downgrade(ctx)
						wait(ctx, time.Millisecond, 2*time.Millisecond)
					}
					s.leave(lease)
					_ = lease.Release(ctx)
				}
			})
		}
	}
	began := time.Now()
	excluded := func() bool { // Some contender has not had the lock yet.
		for me := range shares {
			if shares[me].Load() == 0 {
				return true
			}
		}
		return false
	}
	pauses := c.pauseInTurn(ctx, func(int) bool { return time.Since(began) > least && !excluded() })
	cancel()
	all.Wait()
	t.Logf("%d reads, at most %d at once, %d writes, %d downgrades, %d pauses", s.reads, s.together, s.writes, s.downgrades, pauses)
	require.Empty(t, s.broken)
	c.noKeys()
	require.False(t, excluded(), "each contender gets the lock within %v", atMost)
	require.GreaterOrEqual(t, s.together, 2, "readers share it")
}

// The writer's release wakes all waiting readers at once.
func TestRealReadersAreWoken(t *testing.T) {
	const crowd = 20
	c := startCluster(t, 3)
	rw := c.client().RWLock("job")
	writer := acquire(t, c.client().RWLock("job").Write())
	inside, out, ctx := make(chan *quorumlock.Lease, crowd), make(chan struct{}), withDeadline(t)
	leave := sync.OnceFunc(func() { close(out) })
	defer leave()
	var readers sync.WaitGroup
	for range crowd {
		readers.Go(func() {
			lease, err := rw.Read().Acquire(ctx)
			if assert.NoError(t, err) {
				inside <- lease
				<-out
				assert.NoError(t, lease.Release(ctx))
			}
		})
	}
	for i := range c.servers {
		eventually(t, 10*time.Second, func() bool { return c.number(i, "ZCARD", "quorumlock:queue:{job}") == crowd }, "all readers are in the queue")
	}
	began := time.Now()
	require.NoError(t, writer.Release(t.Context()))
	for range crowd {
		lease := in(t, inside, "every reader has the lock")
		require.GreaterOrEqual(t, lease.Token(), writer.Token())
	}
	t.Logf("%d readers had the lock %v after the writer's release", crowd, time.Since(began))
	// A node that was slow, or answered before the writer's release reached it, gets the readers with their renewals.
	c.holdsWithin(quorumlock.DefaultTTL, "job", "quorumlock:readers")
	leave()
	readers.Wait()
	c.noKeys()
}

// To Redisson's script, readers hold the lock as one other owner. So Redisson acts as a writer.
func TestRealRedissonActsAsWriter(t *testing.T) {
	c := startCluster(t, 3)
	rw := c.client().RWLock("job")
	c.plant("job", "java:1", 10*time.Second, 0, 1, 2)
	_, err := rw.Read().TryAcquire(t.Context())
	require.ErrorIs(t, err, quorumlock.ErrHeld)
	for i := range c.servers {
		c.command(i, "DEL", "job")
	}
	reader := acquire(t, rw.Read())
	for i := range c.servers {
		eventually(t, soon, func() bool { return c.number(i, "EXISTS", "job") == 1 }, "it is there")
		// RLock.tryLock takes a lock whose key is missing or has its own field.
		require.Equal(t, 0, c.number(i, "HEXISTS", "job", "java:1"))
		left := c.number(i, "PTTL", "job")
		require.Positive(t, left, "the key of the readers has a TTL")
		require.LessOrEqual(t, left, int(quorumlock.DefaultTTL.Milliseconds()))
	}
	require.NoError(t, reader.Release(t.Context()))
	c.noKeys()
}

// A server has no memory left. Readers there can renew and release, and no operation is left half done.
func TestRealReadersOnServerWithoutMemory(t *testing.T) {
	c := startCluster(t, 1)
	rw := c.client().RWLock("job")
	first := acquire(t, rw.Read())
	other := c.client().RWLock("other")
	writer := acquire(t, other.Write())
	used := c.command(0, "EVAL", "return string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')", "0")
	n, err := strconv.Atoi(used)
	require.NoError(t, err)
	c.command(0, "CONFIG", "SET", "maxmemory", strconv.Itoa(n/2))
	require.NoError(t, first.Extend(t.Context()), "a reader can renew")
	require.NoError(t, writer.Downgrade(t.Context()), "a writer can downgrade")
	_, err = c.client().RWLock("new").Read().TryAcquire(t.Context())
	require.ErrorIs(t, err, node.ErrRejected)
	require.Equal(t, 0, c.number(0, "EXISTS", "new", "quorumlock:readers:{new}"))
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, writer.Release(t.Context()))
	c.command(0, "CONFIG", "SET", "maxmemory", "0")
	c.noKeys()
}

// The servers restart one after the other without their memory. Readers keep the lock.
func TestRealReadersSurviveRollingRestart(t *testing.T) {
	t.Parallel()
	const ttl = patientTTL
	c := startCluster(t, 3)
	rw := c.client(withMaxTTL(ttl)).RWLock("job")
	reader := acquire(t, rw.Read())
	c.holds("job", "quorumlock:readers")
	stopContender := contested(t, c.client(withMaxTTL(ttl)).RWLock("job").Write(), reader)
	for i := range c.servers {
		c.kill(i)
		c.restart(i)
		backedByAll(t, reader, 20*time.Second)
		eventually(t, 20*time.Second, func() bool { return c.owner(i, "job") == "quorumlock:readers" }, "node %d has the readers", i)
	}
	staysValid(t, reader, time.Second)
	stopContender()
	require.NoError(t, reader.Release(t.Context()))
}
