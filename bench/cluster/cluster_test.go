package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLeftoverKeys(t *testing.T) {
	c, err := Start(t.Context(), Source{}, 2, 0, None, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, key := range []string{"quorumlock:node", "quorumlock:fences", "quorumlock:latch:{a}"} {
		_, err := c.servers[0].Command(t.Context(), "SET", key, "1")
		require.NoError(t, err)
	}
	n, err := c.Keys(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n, "the marker, fences and latches stay by design")

	for _, key := range []string{"quorumlock:queue:{a}", "quorumlock:permit:0:{a}", "a"} {
		_, err := c.servers[1].Command(t.Context(), "SET", key, "1")
		require.NoError(t, err)
	}
	n, err = c.Keys(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

func TestFaults(t *testing.T) {
	c, err := Start(t.Context(), Source{}, 3, 0, Killed, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.NoError(t, c.Break(t.Context(), Killed, 1))
	s := c.Snapshot(t.Context())
	assert.Nil(t, s[0])
	assert.NotNil(t, s[1])
	require.NoError(t, c.Mend(t.Context(), Killed, 1))
	assert.NotNil(t, c.Snapshot(t.Context())[0])

	_, err = c.servers[0].Command(t.Context(), "SET", "a", "1")
	require.NoError(t, err)
	gave, err := c.Gave(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	assert.True(t, gave)
	run := c.Snapshot(t.Context())[0].run
	require.NoError(t, c.Restart(t.Context()))
	assert.NotEqual(t, run, c.Snapshot(t.Context())[0].run)
	gave, err = c.Gave(t.Context(), []string{"a", "b"})
	require.NoError(t, err)
	assert.False(t, gave, "it has forgotten the lock")
}

func TestNodesOfOthersAreNotEmptiedUnasked(t *testing.T) {
	c, err := Start(t.Context(), Source{}, 1, 0, None, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	others := Source{Addresses: c.Addresses()}
	require.NoError(t, others.Check(t.Context()))
	_, err = c.servers[0].Command(t.Context(), "SET", "a", "1")
	require.NoError(t, err)
	require.ErrorContains(t, others.Check(t.Context()), "holds keys")

	taken, err := Start(t.Context(), others, 1, 0, None, 0)
	require.NoError(t, err)
	n, err := taken.Keys(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n, "each cell begins with empty nodes")
	require.Error(t, taken.Break(t.Context(), Hung, 1))
	_, err = Start(t.Context(), others, 3, 0, None, 0)
	require.ErrorContains(t, err, "3 nodes are needed")
}
