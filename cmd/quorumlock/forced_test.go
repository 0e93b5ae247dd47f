//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// release breaks locks. It returns all that it printed.
func (f fleet) release(t *testing.T, code int, line string, leases ...*quorumlock.Lease) string {
	t.Helper()
	r := f.call(t, "release --force "+line)
	require.Equal(t, code, r.code, r.stderr)
	return f.plainly(r.stdout+r.stderr, leases...)
}

func TestForcedRelease(t *testing.T) {
	t.Parallel()
	servers := startFleet(t)
	lease := servers.hold(t)
	assert.Equal(t, exit.Failure, servers.call(t, "release k").code)
	servers.release(t, exit.Failure, "k --owner nobody:1")
	servers.requireLocks(t, "k")

	all := strings.ReplaceAll("nX: removed \"k\" of A, T before it would have run out\n", "X", "%d")
	assert.Equal(t, fmt.Sprintf(strings.Repeat(all, 5), 1, 2, 3, 4, 5)+"\"k\" was removed from 5 of 5 nodes\n"+
		"quorumlock: warning: if A is alive, it may go on until its next renewal fails, and others can have \"k\" from now on\n",
		servers.release(t, exit.OK, "k", lease))
	servers.requireLocks(t)
	ended(t, lease)

	said := servers.release(t, exit.OK, "k")
	assert.Equal(t, 5, strings.Count(said, ": nothing there\n"))
	assert.Contains(t, said, "\n\"k\" was not held on any node that answered\n")

	lease = servers.hold(t)
	servers.release(t, exit.OK, "k --owner "+idOf(lease))
	ended(t, lease)
	servers.requireLocks(t)

	servers.hold(t)
	for _, s := range servers[:3] {
		s.Kill()
	}
	said = servers.release(t, exit.NoQuorum, "k")
	assert.Contains(t, said, "n1: not removed: ")
	assert.Contains(t, said, `"k" was removed from 2 of 5 nodes`)
	assert.Contains(t, said, `no quorum: 2 of 5 nodes answered for "k", 3 needed`)
}

// TestForcedReleaseOfAPermit: a permit is taken from its holder alone, and the holder learns of it. A latch has no holder.
func TestForcedReleaseOfAPermit(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	lost, kept := servers.permit(t), servers.permit(t)
	number := lost.Slots()[0]
	assert.Contains(t, servers.release(t, exit.Failure, "s"), fmt.Sprintf(
		`nothing was released: no lock "s" is held, but permits %d and %d of the semaphore; choose with --owner`,
		min(number, kept.Slots()[0]), max(number, kept.Slots()[0])))
	said := servers.release(t, exit.OK, "s --owner "+idOf(lost), lost)
	assert.Contains(t, said, fmt.Sprintf("permit %d of the semaphore \"s\": taken from A on 3 of 3 nodes\n", number))
	assert.Contains(t, said, "if A is alive, it may go on until its next renewal fails")
	ended(t, lost)
	require.NoError(t, kept.Err())
	for _, s := range servers {
		assert.NotContains(t, s.Keys(), wire.SlotName(wire.PoolName("s"), number))
	}

	require.NoError(t, servers.client(t).Latch("l").Set(t.Context(), 1))
	said = servers.release(t, exit.Failure, "l")
	assert.Contains(t, said, `nothing was released: "l" is a latch, which has no holder`)
	assert.NotContains(t, said, "not held")

	// No quorum for one name does not hide why nothing was done about another.
	servers[1].Kill()
	servers[2].Kill()
	said = servers.release(t, exit.NoQuorum, "k s")
	assert.Contains(t, said, `1 of 3 nodes answered for "k"`)
	assert.Contains(t, said, `nothing was released: no lock "s" is held, but permit`)
}

// TestForcedReleaseOfAReader: one reader is taken away, and the others read on.
func TestForcedReleaseOfAReader(t *testing.T) {
	t.Parallel()
	servers := openFleet(t, 3)
	lost, kept := servers.reader(t), servers.reader(t)
	assert.Contains(t, servers.release(t, exit.OK, "r --owner "+idOf(lost), lost), "\"r\": taken from A on 3 of 3 nodes\n")
	ended(t, lost)
	require.NoError(t, kept.Err())
	said := servers.status(t, exit.OK, "r")
	assert.Contains(t, said, `"r" is held by 1 reader on 3 of 3 nodes`)
	assert.NotContains(t, said, idOf(lost))
	assert.Contains(t, servers.release(t, exit.Failure, "r --owner "+idOf(lost)), idOf(lost)+` holds nothing of the name "r" on any node that answered`)

	// Without a choice, all readers go, as any holder of the lock does.
	assert.Contains(t, servers.release(t, exit.OK, "r"), `"r" was removed from 3 of 3 nodes`)
	ended(t, kept)
}
