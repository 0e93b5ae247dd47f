package container

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/stretchr/testify/require"
)

func TestSplitRef(t *testing.T) {
	for _, c := range []struct{ ref, repository, tag string }{
		{"redis", "redis", "latest"},
		{"redis:7-bookworm", "redis", "7-bookworm"},
		{"localhost:5000/redis", "localhost:5000/redis", "latest"},
		{"localhost:5000/redis:7", "localhost:5000/redis", "7"},
		{"redis@sha256:0123", "redis@sha256:0123", ""},
	} {
		repository, tag := splitRef(c.ref)
		require.Equal(t, []string{c.repository, c.tag}, []string{repository, tag}, c.ref)
	}
}

func TestParseLinked(t *testing.T) {
	paths, err := parseLinked("\tlinux-vdso.so.1 (0x00007f)\n" +
		"\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n" +
		"\tlibc.so => /lib/ld-musl-x86_64.so.1 (0x00007f)\n")
	require.NoError(t, err)
	require.Equal(t, []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib/ld-musl-x86_64.so.1"}, paths)

	_, err = parseLinked("\tlibm.so.6 => not found\n")
	require.ErrorContains(t, err, "libm.so.6: not found")
}

func TestSearchPath(t *testing.T) {
	require.Equal(t, []string{"LD_LIBRARY_PATH=/lib:/usr/lib"}, searchPath([]string{"/usr/lib/a.so", "/lib/b.so", "/usr/lib/c.so"}))
}

func TestArchiveIsTheSameEachTime(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	one, err := archive([]string{program})
	require.NoError(t, err)
	other, err := archive([]string{program})
	require.NoError(t, err)
	require.Equal(t, one, other)
	_, err = archive([]string{filepath.Join(t.TempDir(), "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestInstalledNeedsRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := importInstalled(t.Context(), nil, "")
	require.ErrorIs(t, err, exec.ErrNotFound)
}

func TestInstalledNeedsAProgramForLinux(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", dir)
	_, err := importInstalled(t.Context(), nil, "")
	require.ErrorContains(t, err, "not a program for Linux")
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

// engine is a server that implements only the pull.
func engine(t *testing.T, images http.HandlerFunc) *dockertest.Pool {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /images/create", images)
	mux.HandleFunc("GET /images/{name...}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"Config":{"Cmd":["valkey-server"]}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	pool, err := dockertest.NewPool(server.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Client.HTTPClient.CloseIdleConnections)
	return pool
}

func TestPullGivesUpARegistryThatIsSilent(t *testing.T) {
	pool := engine(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := pull(t.Context(), pool.Client, "redis", 50*time.Millisecond)
	require.ErrorIs(t, err, errStalled)
}

func TestPullEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{})
	pool := engine(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := pull(ctx, pool.Client, "redis", time.Minute)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPullGoesOnWhileThereIsProgress(t *testing.T) {
	const answer = 200 * time.Millisecond
	pool := engine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range 2 {
			fmt.Fprintln(w, `{"status":"Pulling"}`)
			_ = http.NewResponseController(w).Flush()
			select { // longer in all than the first answer may take
			case <-time.After(2 * answer):
			case <-r.Context().Done():
			}
		}
	})
	img, err := pull(t.Context(), pool.Client, "valkey/valkey:8-bookworm", answer)
	require.NoError(t, err)
	require.Equal(t, image{ref: "valkey/valkey:8-bookworm", program: "valkey-server", why: "pulled"}, img)
}

func TestPullTellsWhatTheRegistrySaid(t *testing.T) {
	pool := engine(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}`)
	})
	_, err := pull(t.Context(), pool.Client, "redis", time.Minute)
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
