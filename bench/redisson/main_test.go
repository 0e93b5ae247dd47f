// Package redisson tests this library beside Redisson, the Java client, which a small Java program drives. Maven builds that.
package redisson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if shared != nil {
		shared.Kill()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	// program is what Maven builds.
	program = "target/peer.jar"
	// buildTimeout bounds the build of the Java program, including the download of its dependencies.
	buildTimeout = 5 * time.Minute
	// waitDelay is how long a killed process may take to close its pipes.
	waitDelay = 5 * time.Second
)

// errMissing means that Maven or the JDK is not installed.
var errMissing = errors.New("no program in Java: that needs Maven and a JDK of version 17 or newer on PATH")

// build has Maven build the program, unless it is up to date. Maven is offline if it has all dependencies.
func build(ctx context.Context) error {
	for _, tool := range []string{"mvn", "javac", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %w", errMissing, err)
		}
	}
	if maven(ctx, "--offline") == nil {
		return nil
	}
	return maven(ctx)
}

// built builds the program once for all tests.
var built = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	return build(ctx)
})

func maven(ctx context.Context, args ...string) error {
	mvn := exec.CommandContext(ctx, "mvn", append(args, "--batch-mode", "--quiet", "package")...)
	mvn.WaitDelay = waitDelay
	out, err := mvn.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program in Java: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

func TestBuild(t *testing.T) {
	needed(t, nil, built())
	require.FileExists(t, program)

	t.Setenv("PATH", t.TempDir())
	require.ErrorIs(t, build(t.Context()), errMissing)
}

// shared is the Java process of all tests that do not kill it. The first test that needs it starts it.
var shared *Process

// needed skips a test if there is no Maven or JDK, which is the only reason to skip. If QUORUMLOCK_REDISSON is
// "required", the test fails instead.
func needed(t *testing.T, process *Process, err error) *Process {
	t.Helper()
	if errors.Is(err, errMissing) && os.Getenv("QUORUMLOCK_REDISSON") != "required" {
		fmt.Fprintf(os.Stderr, "%s is skipped: %v\n", t.Name(), err)
		t.Skip(err)
	}
	require.NoError(t, err)
	return process
}
