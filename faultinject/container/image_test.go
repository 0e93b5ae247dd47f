package container

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"
)

// registry is an engine that implements only the pull, and answers it so. An image is missing until it was pulled.
func registry(t *testing.T, answer string) *docker.Client {
	t.Helper()
	var pulled atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		pulled.Store(r.URL.Query().Get("tag") != "")
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

// TestImages: an image that the environment names comes first, and a public image last.
func TestImages(t *testing.T) {
	t.Setenv(ImageEnv, "valkey/valkey:8-bookworm")
	img, err := findImage(t.Context(), registry(t, `{"status":"Pulling"}`))
	require.NoError(t, err)
	require.Equal(t, "valkey/valkey:8-bookworm", img.ref)
	require.Equal(t, "valkey-server", img.program)
	t.Setenv(ImageEnv, "")
	t.Setenv("PATH", t.TempDir())
	img, err = findImage(t.Context(), registry(t, `{"status":"Pulling"}`))
	require.NoError(t, err)
	require.Equal(t, publicImage, img.ref)
	_, err = findImage(t.Context(), registry(t, `{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}`))
	require.ErrorContains(t, err, "pull the image "+publicImage)
	require.ErrorContains(t, err, "manifest unknown")
}

// TestNamedImageRuns makes an image of the installed server and its libraries, as a registry would have it.
func TestNamedImageRuns(t *testing.T) {
	needsDocker(t)
	const ref = "quorumlock-faultinject:named"
	program, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	libraries, err := exec.CommandContext(t.Context(), "ldd", program).Output()
	require.NoError(t, err)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, path := range append(regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1), program) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(content))}))
		_, err = w.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o777}))
	require.NoError(t, w.Close())
	pool, err := connect(t.Context())
	require.NoError(t, err)
	defer pool.Client.HTTPClient.CloseIdleConnections()
	repository, tag := docker.ParseRepositoryTag(ref)
	require.NoError(t, pool.Client.ImportImage(docker.ImportImageOptions{
		Repository: repository, Tag: tag, Source: "-", InputStream: &files, OutputStream: io.Discard, Context: t.Context(),
	}))
	t.Setenv(ImageEnv, ref)
	s := start(t, 1).Servers()[0]
	require.NoError(t, s.Kill(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	require.ErrorIs(t, s.StepClock(t.Context(), time.Hour), errors.ErrUnsupported)
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
