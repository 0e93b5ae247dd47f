package container

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needsDocker skips a test in short mode, and if there is no Docker engine. If QUORUMLOCK_DOCKER is "required", the
// test fails instead.
func needsDocker(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs Docker: make check")
	}
	err := Available(t.Context())
	if err == nil {
		return
	}
	if os.Getenv("QUORUMLOCK_DOCKER") == "required" {
		require.NoError(t, err)
	}
	fmt.Fprintf(os.Stderr, "%s is skipped: %v\n", t.Name(), err)
	t.Skip(err)
}

func start(t testing.TB, n int) *faultinject.Group {
	t.Helper()
	needsDocker(t)
	group, err := Start(t.Context(), n)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	return group
}

// newClient connects to the engine directly.
func newClient(t *testing.T) *docker.Client {
	t.Helper()
	pool, err := dockertest.NewPool("")
	require.NoError(t, err)
	t.Cleanup(pool.Client.HTTPClient.CloseIdleConnections)
	return pool.Client
}

// idOf returns the id of the group that has its directories below tmp.
func idOf(t *testing.T, client *docker.Client, tmp string) string {
	t.Helper()
	containers, err := client.ListContainers(docker.ListContainersOptions{Filters: map[string][]string{"label": {label}}})
	require.NoError(t, err)
	for _, c := range containers {
		for _, m := range c.Mounts {
			if strings.HasPrefix(m.Source, tmp) {
				return c.Labels[label]
			}
		}
	}
	require.Fail(t, "no container is of this test")
	return ""
}

// made are the containers of a group.
func made(t *testing.T, client *docker.Client, id string) (names []string) {
	t.Helper()
	containers, err := client.ListContainers(docker.ListContainersOptions{
		All: true, Filters: map[string][]string{"label": {label + "=" + id}},
	})
	require.NoError(t, err)
	for _, c := range containers {
		names = append(names, c.Names...)
	}
	return names
}

func TestGroupLeavesNothing(t *testing.T) {
	needsDocker(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	client := newClient(t)
	group := start(t, 3)
	id := idOf(t, client, tmp)
	require.Len(t, made(t, client, id), 3)

	require.NoError(t, group.Close())
	require.NoError(t, group.Close())
	require.Empty(t, made(t, client, id))
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestExpiredGroupIsRemoved: another program was killed, two hours ago, and has left a paused container.
func TestExpiredGroupIsRemoved(t *testing.T) {
	needsDocker(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	client := newClient(t)
	group, err := startUntil(t.Context(), 1, time.Now().Add(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	id := idOf(t, client, tmp)
	require.NoError(t, group.Servers()[0].Pause(t.Context()))
	require.Eventually(t, func() bool {
		require.NoError(t, start(t, 0).Close())
		return len(made(t, client, id)) == 0
	}, 30*time.Second, 100*time.Millisecond)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestStepClock: the contract allows servers whose clocks cannot step. These can, if libfaketime is installed.
func TestStepClock(t *testing.T) {
	s := start(t, 1).Servers()[0]
	require.NoError(t, s.StepClock(t.Context(), time.Hour), "make setup installs libfaketime")
}
