package redisproc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crash kills the server, lets meanwhile happen to its files, and starts it again.
func crash(t *testing.T, s *Server, meanwhile func()) {
	t.Helper()
	before := s.ReplicationID()
	require.Len(t, before, 40)
	s.Kill()
	meanwhile()
	s.Restart()
	after := s.ReplicationID()
	require.Len(t, after, 40)
	assert.NotEqual(t, before, after, "a start begins a history of its own")
}

func nothing() {}

func TestTruncateAOFRefuses(t *testing.T) {
	s := Start(t, WithAOF())
	command(t, s, "SET", "k", "v")
	mark := s.AOFSize()
	require.ErrorContains(t, s.truncateAOF(mark), "running")
	s.Kill()
	require.ErrorContains(t, s.truncateAOF(mark+1), "fewer")

	none := Start(t)
	none.Kill()
	require.ErrorIs(t, none.truncateAOF(0), os.ErrNotExist)
}

func TestFileThatIsAppendedTo(t *testing.T) {
	s := &Server{dir: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(s.dir, "appendonlydir"), 0o700))
	for _, name := range []string{"appendonly.aof", "appendonlydir/a.9.incr.aof", "appendonlydir/a.10.incr.aof"} { // before Redis 7, and since
		want := filepath.Join(s.dir, name)
		require.NoError(t, os.WriteFile(want, []byte("12345"), 0o600))
		path, size, err := s.aof()
		require.NoError(t, err)
		assert.Equal(t, want, path)
		assert.EqualValues(t, 5, size)
	}
}

func TestSave(t *testing.T) {
	s := Start(t, WithPassword("pw"))
	command(t, s, "SET", "a", "v")
	s.Save()
	command(t, s, "SET", "b", "v")
	for range 2 {
		crash(t, s, nothing)
		assert.Equal(t, []string{"a"}, s.Keys())
	}
}

// A server demands the password before it tells that it is loading.
func TestRestartReturnsOnceLoaded(t *testing.T) {
	const delayPerKey = "100000" // microseconds
	s := Start(t, WithPassword("pw"), WithArgs("--key-load-delay", delayPerKey, "--rdbcompression", "no"))
	big := strings.Repeat("x", 3<<20) // the server listens in between from 2 MiB on
	for _, key := range []string{"a", "b", "c"} {
		command(t, s, "SET", key, big)
	}
	s.Save()
	s.Restart()
	assert.Equal(t, []string{"a", "b", "c"}, s.Keys())
}
