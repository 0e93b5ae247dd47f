package container

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
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

// engine is a server that implements only the pull. An image is missing until it was pulled.
func engine(t *testing.T, answer string) *docker.Client {
	t.Helper()
	var pulled atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		pulled.Store(r.URL.Query().Get("tag") == "8-bookworm")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, answer)
	})
	mux.HandleFunc("GET /images/{name...}", func(w http.ResponseWriter, _ *http.Request) {
		if !pulled.Load() {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, `{"Config":{"Cmd":["valkey-server"]}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	pool, err := dockertest.NewPool(server.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Client.HTTPClient.CloseIdleConnections)
	return pool.Client
}

func TestNamedImageIsPulled(t *testing.T) {
	img, err := named(t.Context(), engine(t, `{"status":"Pulling"}`), "valkey/valkey:8-bookworm")
	require.NoError(t, err)
	require.Equal(t, "valkey/valkey:8-bookworm", img.ref)
	require.Equal(t, "valkey-server", img.program)
}

func TestPullTellsWhatTheRegistrySaid(t *testing.T) {
	_, err := named(t.Context(), engine(t, `{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}`), "redis")
	require.ErrorContains(t, err, "pull the image redis: ")
	require.ErrorContains(t, err, "manifest unknown")
}

func TestExpired(t *testing.T) {
	at := func(d time.Duration) map[string]string {
		return (&group{expires: time.Now().Add(d)}).labels()
	}
	require.True(t, expired(at(-time.Minute)))
	require.False(t, expired(at(time.Minute)))
	require.False(t, expired(map[string]string{label: "try"}))
}
