package cluster

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (c *Cluster) set(t *testing.T, server int, key string) {
	t.Helper()
	_, err := c.servers[server].Do(t.Context(), "SET", key, "1")
	require.NoError(t, err)
}

func TestLeftoverKeys(t *testing.T) {
	c, err := Start(t.Context(), 2, None, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, key := range []string{"quorumlock:node", "quorumlock:fences", "quorumlock:latch:{a}"} {
		c.set(t, 0, key)
	}
	n, err := c.Keys(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n, "the marker, fences and latches stay by design")
	for _, key := range []string{"quorumlock:queue:{a}", "quorumlock:permit:0:{a}", "a"} {
		c.set(t, 1, key)
	}
	n, err = c.Keys(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}

func TestFaults(t *testing.T) {
	c, err := Start(t.Context(), 3, Hung, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for _, fault := range []Fault{Hung, Killed} {
		require.NoError(t, c.Break(fault, 1))
		s := c.Snapshot(t.Context())
		assert.Nil(t, s[0])
		require.NotNil(t, s[1])
		assert.Equal(t, runtime.GOOS == "linux", s[1].Wakeups > 0)
		require.NoError(t, c.Mend(t.Context(), 1))
		assert.NotNil(t, c.Snapshot(t.Context())[0])
	}
}
