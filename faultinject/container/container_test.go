package container

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func startFor(t testing.TB, n int, lives time.Duration) *faultinject.Group {
	t.Helper()
	group, err := startUntil(t.Context(), n, time.Now().Add(lives))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	return group
}

// made returns the containers whose directory is below tmp.
func made(t *testing.T, tmp string) (names []string) {
	t.Helper()
	list, err := docker(t.Context(), "ps", "--all", "--format", fmt.Sprintf(`{{.Names}} {{.Label %q}}`, sharedLabel))
	require.NoError(t, err)
	for line := range strings.Lines(list) {
		if name, dir, _ := strings.Cut(line, " "); strings.HasPrefix(dir, tmp) {
			names = append(names, name)
		}
	}
	return names
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestGroupLeavesNothing(t *testing.T) {
	needsDocker(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	group := startFor(t, 3, lifetime)
	require.Len(t, made(t, tmp), 3)
	volumes := func() string {
		list, err := docker(t.Context(), "volume", "ls", "--quiet", "--filter", "dangling=true")
		require.NoError(t, err)
		return list
	}
	before := volumes()

	require.NoError(t, group.Close())
	require.NoError(t, group.Close())
	require.Empty(t, made(t, tmp))
	require.Equal(t, before, volumes())
	requireEmpty(t, tmp)
}

// TestExpiredGroupIsRemoved: another program was killed, two hours ago, and has left a paused container.
func TestExpiredGroupIsRemoved(t *testing.T) {
	needsDocker(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	group := startFor(t, 1, time.Second)
	require.NoError(t, group.Servers()[0].Pause(t.Context()))
	fresh := startFor(t, 1, lifetime)
	require.Eventually(t, func() bool {
		require.NoError(t, startFor(t, 0, lifetime).Close())
		return len(made(t, tmp)) == 1
	}, 30*time.Second, 100*time.Millisecond)
	_, err := fresh.Servers()[0].Command(t.Context(), "PING")
	require.NoError(t, err, "the other group has not expired")
	require.NoError(t, fresh.Close())
	requireEmpty(t, tmp)
}

// TestStepClock: the contract allows servers whose clocks cannot step. These can, if libfaketime is installed.
func TestStepClock(t *testing.T) {
	needsDocker(t)
	s := startFor(t, 1, lifetime).Servers()[0]
	require.NoError(t, s.StepClock(t.Context(), time.Hour), "make setup installs libfaketime")
}

// TestImages: the one that the environment names comes first, and a public one last. An engine that lacks it pulls it.
func TestImages(t *testing.T) {
	tools := t.TempDir()
	t.Setenv("PATH", tools)
	require.ErrorIs(t, Available(t.Context()), ErrNoEngine, "there is no program docker")
	engine := func(pull string) {
		script := "#!/bin/sh\ncase $1 in pull) " + pull + ";; *) [ -e " + tools + "/pulled ] && echo valkey-server;; esac\n"
		require.NoError(t, os.WriteFile(filepath.Join(tools, "docker"), []byte(script), 0o700))
		_ = os.Remove(filepath.Join(tools, "pulled"))
	}
	pulls := ": >" + tools + "/pulled"
	for named, want := range map[string]string{"valkey/valkey:8-bookworm": "valkey/valkey:8-bookworm", "": publicImage} {
		t.Setenv(ImageEnv, named)
		engine(pulls)
		g := new(group)
		require.NoError(t, g.findImage(t.Context()))
		require.Equal(t, want, g.image)
		require.Equal(t, "valkey-server", g.program)
	}
	engine("echo manifest unknown >&2; exit 1")
	require.ErrorContains(t, new(group).findImage(t.Context()), "manifest unknown")
}

// TestNamedImageRuns makes an image of the installed server and its libraries, as a registry would have it.
func TestNamedImageRuns(t *testing.T) {
	needsDocker(t)
	const ref = "quorumlock-faultinject:named"
	made := exec.CommandContext(t.Context(), "sh", "-c", `p=$(command -v redis-server) && tar chf - -C / $p $(ldd $p | grep -o '/[^ ]*') | docker import - `+ref)
	out, err := made.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Setenv(ImageEnv, ref)
	s := startFor(t, 1, lifetime).Servers()[0]
	require.NoError(t, s.Kill(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	require.ErrorIs(t, s.StepClock(t.Context(), time.Hour), errors.ErrUnsupported)
}

func TestAvailableTellsWhyNot(t *testing.T) {
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip(err)
	}
	nowhere := "unix://" + filepath.Join(t.TempDir(), "docker.sock")
	for host, reason := range map[string]string{
		nowhere:                 nowhere,
		"tcp://10.0.0.1:2375":   "is on another",
		"tcp://docker:2376":     "is on another",
		"nonsense":              "",
		"tcp://127.0.0.1:1":     "tcp://127.0.0.1:1",
		"http://localhost:2375": "",
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
