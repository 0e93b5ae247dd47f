package redisproc

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReplicationLeavesNoDump(t *testing.T) {
	master := Start(t)
	command(t, master, "SET", "k", "v")
	replica := StartReplica(t, master)
	require.Equal(t, []string{"k"}, replica.Keys())
	master.Kill()
	replica.Restart()
	assert.Empty(t, replica.Keys())
	master.Restart()
	assert.Empty(t, master.Keys())
}

func TestPromotedReplicaKeepsWhatItHas(t *testing.T) {
	master := Start(t)
	command(t, master, "SET", "k", "v")
	replica := StartReplica(t, master, WithAOF())
	was := replica.ReplicationID()
	replica.Promote()
	assert.NotEqual(t, was, replica.ReplicationID())
	assert.Equal(t, was, master.ReplicationID())

	command(t, replica, "SET", "own", "v")
	replica.Restart()
	is, err := replica.info(t.Context(), "replication")
	require.NoError(t, err)
	assert.Equal(t, "master", is["role"], "also after a restart")
	assert.Equal(t, []string{"k", "own"}, replica.Keys())
	assert.Equal(t, []string{"k"}, master.Keys())
}

func TestReplicaThatIsBehind(t *testing.T) {
	a := Start(t, WithPassword("pw"))
	b := StartReplica(t, a)
	command(t, a, "SET", "replicated", "v")
	b.CatchUp()
	b.PauseReplication()
	command(t, a, "SET", "lost", "v")
	require.Equal(t, []string{"lost", "replicated"}, a.Keys())
	ids := []string{a.ReplicationID()}

	a.Kill()
	b.Promote()
	assert.Equal(t, []string{"replicated"}, b.Keys())
	ids = append(ids, b.ReplicationID())

	a.Restart()
	ids = append(ids, a.ReplicationID())
	a.Follow(b)
	assert.Equal(t, b.ReplicationID(), a.ReplicationID())
	assert.Equal(t, []string{"replicated"}, a.Keys())
	command(t, b, "SET", "lost again", "v")
	a.CatchUp()
	assert.Equal(t, []string{"lost again", "replicated"}, a.Keys())

	a.PauseReplication()
	command(t, b, "DEL", "lost again")
	a.Promote()
	assert.Equal(t, []string{"lost again", "replicated"}, a.Keys(), "the replica missed the deletion")
	ids = append(ids, a.ReplicationID())
	b.Follow(a)
	assert.Equal(t, a.ReplicationID(), b.ReplicationID())
	assert.Equal(t, a.Keys(), b.Keys())
	assertAllDiffer(t, ids)
}

func assertAllDiffer(t *testing.T, ids []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range ids {
		seen[id] = true
	}
	assert.Len(t, seen, len(ids), "%v", ids)
}

func TestRestartEndsPauseOfReplication(t *testing.T) {
	master := Start(t)
	replica := StartReplica(t, master)
	replica.PauseReplication()
	command(t, master, "SET", "k", "v")
	replica.Restart()
	replica.CatchUp()
	assert.Equal(t, []string{"k"}, replica.Keys())
}

func TestMasterIsNoReplica(t *testing.T) {
	s := Start(t)
	s.Promote() // it is a master already
	require.ErrorIs(t, s.catchUp(s.followed()), errNoReplica)
	require.ErrorIs(t, s.pauseReplication(), errNoReplica)

	other := Start(t)
	other.Kill()
	require.Error(t, s.follow(other), "no server to follow")
}
