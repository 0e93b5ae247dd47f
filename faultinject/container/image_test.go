package container

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInstalledNeedsRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := installed(t.Context(), nil)
	require.ErrorIs(t, err, exec.ErrNotFound)
}

func TestLocalEndpoints(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"unix:///var/run/docker.sock":    true,
		"npipe:////./pipe/docker_engine": true,
		"tcp://127.0.0.1:2375":           true,
		"tcp://[::1]:2375":               true,
		"http://localhost:2375":          true,
		"tcp://docker:2376":              false,
		"tcp://10.0.0.1:2376":            false,
		"%":                              false,
	} {
		require.Equal(t, want, isLocal(endpoint), endpoint)
	}
}

func TestAvailableTellsWhyNot(t *testing.T) {
	t.Setenv("DOCKER_CERT_PATH", "")
	nowhere := "unix://" + filepath.Join(t.TempDir(), "docker.sock")
	for host, reason := range map[string]string{
		nowhere:               nowhere,
		"tcp://10.0.0.1:2375": "is on another",
		"nonsense":            "",
	} {
		t.Setenv("DOCKER_HOST", host)
		err := Available(t.Context())
		require.ErrorIs(t, err, ErrNoEngine)
		require.ErrorContains(t, err, reason)
		require.NotContains(t, err.Error(), "\n")
		_, err = Start(t.Context(), 1)
		require.ErrorIs(t, err, ErrNoEngine)
	}
}

func TestExpired(t *testing.T) {
	at := func(d time.Duration) map[string]string {
		return (&group{expires: time.Now().Add(d)}).labels()
	}
	require.True(t, expired(at(-time.Minute)))
	require.False(t, expired(at(time.Minute)))
	require.False(t, expired(map[string]string{label: "try"}))
}
