package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// requireKey waits until all servers have a key, and a member in it if one is given.
func requireKey(t *testing.T, servers fleet, key string, member ...string) {
	t.Helper()
	has := func(s *redisproc.Server) bool {
		if len(member) == 0 {
			return slices.Contains(s.Keys(), key)
		}
		score, err := s.Command("ZSCORE", key, member[0])
		return err == nil && score != ""
	}
	for _, s := range servers {
		require.Eventually(t, func() bool { return has(s) }, patience, time.Millisecond, "%s on %s", key, s.Addr())
	}
}

// permit acquires one of three permits of the semaphore "s".
func (f fleet) permit(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).Semaphore("s", 3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	requireKey(t, f, node.SlotName(node.PoolName("s"), lease.Slots()[0]))
	return retain(t, lease)
}

// reader acquires the lock "r" for a reader.
func (f fleet) reader(t *testing.T) *quorumlock.Lease {
	t.Helper()
	lease, err := f.client(t).RWLock("r").Read().Acquire(t.Context())
	require.NoError(t, err)
	requireKey(t, f, "quorumlock:readers:{r}", lease.Owner())
	return retain(t, lease)
}

// ended checks that a lease is lost. A renewal now finds that out at once.
func ended(t *testing.T, lease *quorumlock.Lease) {
	t.Helper()
	_ = lease.Extend(t.Context()) // it may tell only that too few nodes confirmed it
	select {
	case <-lease.Context().Done():
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
	case <-time.After(patience):
		require.FailNow(t, "the holder never learnt of the forced release")
	}
}

func idOf(lease *quorumlock.Lease) string { return quorumlock.ParseOwner(lease.Owner()).ID }

// TestStatusOfEveryKind: status shows everything of a name that is held, and does not call such a name free.
func TestStatusOfEveryKind(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	first, second := servers.permit(t), servers.permit(t)
	readers := []*quorumlock.Lease{servers.reader(t), servers.reader(t)}
	latch := servers.client(t).Latch("l")
	require.NoError(t, latch.Set(t.Context(), 3))
	require.NoError(t, latch.CountDown(t.Context(), "one"))

	status := func(args ...string) string {
		r := call(t, append(append([]string{"status"}, args...), "--nodes", servers.nodes())...)
		require.Zero(t, r.code, r.stderr)
		assert.Empty(t, r.stderr)
		return r.stdout
	}
	text := status("s")
	assert.NotRegexp(t, `"s" is free`, text)
	assert.Contains(t, text, "semaphore \"s\": 2 permits held; their number is not set on the nodes, programs configure it\n")
	for _, lease := range []*quorumlock.Lease{first, second} {
		assert.Regexp(t, fmt.Sprintf(`(?m)^%d +%s +3/3 +\d\S*s +\d\S*s +\d{16}$`, lease.Slots()[0], regexp.QuoteMeta(quorumlock.DescribeOwner(lease.Owner()))), text)
	}
	require.NoError(t, servers.client(t).Semaphore("s", 3).SetPermits(t.Context(), 3))
	assert.Contains(t, status("s"), "semaphore \"s\": 2 of 3 permits held\n")

	text = status("r")
	assert.Contains(t, text, `"r" is held by 2 readers on 3 of 3 nodes (2 needed)`)
	for _, lease := range readers {
		assert.Regexp(t, fmt.Sprintf(`(?m)^%s +3/3 +\d\S*s$`, regexp.QuoteMeta(quorumlock.DescribeOwner(lease.Owner()))), text)
	}

	text = status("l")
	assert.NotRegexp(t, `"l" is free`, text)
	assert.Contains(t, text, "latch \"l\": 1 of 3 have counted down\n")
	require.NoError(t, latch.CountDown(t.Context(), "two"))
	require.NoError(t, latch.CountDown(t.Context(), "three"))
	assert.Contains(t, status("l"), "latch \"l\": done, all 3 have counted down\n")
	require.NoError(t, latch.Delete(t.Context()))
	assert.Contains(t, status("l"), "\"l\" is free: 3 of 3 nodes answered (2 needed)\n")

	var report struct {
		Locks []struct {
			State     string
			Readers   []struct{ Owner string }
			Semaphore *struct {
				Permits int
				Held    []struct {
					Permit int
					Owner  string
					State  string
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(status("--json", "s", "r", "free")), &report))
	s := report.Locks[0]
	assert.Equal(t, "in_use", s.State)
	require.NotNil(t, s.Semaphore)
	assert.Equal(t, 3, s.Semaphore.Permits)
	require.Len(t, s.Semaphore.Held, 2)
	for i, lease := range []*quorumlock.Lease{first, second} {
		at := slices.IndexFunc(s.Semaphore.Held, func(h struct {
			Permit int
			Owner  string
			State  string
		},
		) bool {
			return h.Permit == lease.Slots()[0]
		})
		require.GreaterOrEqual(t, at, 0, i)
		assert.Equal(t, lease.Owner(), s.Semaphore.Held[at].Owner)
		assert.Equal(t, "held", s.Semaphore.Held[at].State)
	}
	assert.Equal(t, "held", report.Locks[1].State)
	assert.Len(t, report.Locks[1].Readers, 2)
	assert.Equal(t, "free", report.Locks[2].State)
	assert.Nil(t, report.Locks[2].Semaphore)
}

// TestForcedReleaseOfAPermit: a permit is taken from its holder alone, and the holder learns of it.
func TestForcedReleaseOfAPermit(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	lost, kept := servers.permit(t), servers.permit(t)

	r := call(t, "release", "--force", "s", "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, fmt.Sprintf(`nothing was released: no lock "s" is held, but permits %d and %d of the semaphore; choose with --permit or --owner`,
		min(lost.Slots()[0], kept.Slots()[0]), max(lost.Slots()[0], kept.Slots()[0])))
	r = call(t, "release", "--force", "s", "--permit", "7", "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, `permit 7 of the semaphore "s" is not held on any node that answered`)

	r = call(t, "release", "--force", "s", "--permit", fmt.Sprint(lost.Slots()[0]), "--nodes", servers.nodes())
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, fmt.Sprintf("permit %d of the semaphore \"s\": taken from %s on 3 of 3 nodes\n", lost.Slots()[0], quorumlock.DescribeOwner(lost.Owner())))
	assert.Contains(t, r.stderr, "is alive, it may go on until its next renewal fails")
	ended(t, lost)
	require.NoError(t, kept.Err())
	slot := node.SlotName(node.PoolName("s"), lost.Slots()[0])
	for _, s := range servers {
		assert.NotContains(t, s.Keys(), slot)
	}
}

// TestForcedReleaseOfAReader: one reader is taken away, and the others read on.
func TestForcedReleaseOfAReader(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	lost, kept := servers.reader(t), servers.reader(t)
	r := call(t, "release", "--force", "r", "--owner", idOf(lost), "--nodes", servers.nodes())
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, fmt.Sprintf("%q: taken from %s on 3 of 3 nodes\n", "r", quorumlock.DescribeOwner(lost.Owner())))
	ended(t, lost)
	require.NoError(t, kept.Err())
	r = call(t, "status", "r", "--nodes", servers.nodes())
	assert.Contains(t, r.stdout, `"r" is held by 1 reader on 3 of 3 nodes`)
	assert.NotContains(t, r.stdout, idOf(lost))

	r = call(t, "release", "--force", "r", "--owner", idOf(lost), "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, fmt.Sprintf(`%s holds nothing of the name "r" on any node that answered`, idOf(lost)))

	// Without a choice, all readers go, as any holder of the lock does.
	r = call(t, "release", "--force", "r", "--nodes", servers.nodes())
	assert.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, `"r" was removed from 3 of 3 nodes`)
	ended(t, kept)
}

// TestForcedReleaseOfAnOwner: only the given owner loses the lock, and an open latch is no lock.
func TestForcedReleaseOfAnOwner(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	requireEverywhere(t, servers)
	r := call(t, "release", "--force", "k", "--owner", "nobody:1", "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	requireEverywhere(t, servers)
	r = call(t, "release", "--force", "k", "--owner", lease.Owner(), "--nodes", servers.nodes())
	assert.Zero(t, r.code, r.stderr)
	ended(t, lease)
	servers.requireClean(t)

	require.NoError(t, servers.client(t).Latch("k").Set(t.Context(), 1))
	r = call(t, "release", "--force", "k", "--nodes", servers.nodes())
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.stderr, `nothing was released: "k" is a latch, which has no holder`)
	assert.NotContains(t, r.stdout, "not held")
}

// TestForcedReleaseTellsEveryFailure: no quorum for one name does not hide why nothing was done about another.
func TestForcedReleaseTellsEveryFailure(t *testing.T) {
	t.Parallel()
	servers := newFleet(t, 3)
	servers.open(t)
	servers.permit(t) // of the semaphore "s", on all servers
	servers[1].Kill()
	servers[2].Kill()
	r := call(t, "release", "--force", "k", "s", "--nodes", servers.nodes())
	assert.Equal(t, exitNoQuorum, r.code)
	require.Contains(t, r.stderr, `1 of 3 nodes answered for "k"`)
	assert.Contains(t, r.stderr, `nothing was released: no lock "s" is held, but permit`)
}
