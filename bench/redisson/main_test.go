package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/redisson"
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

// buildTimeout bounds the build of the Java program, including the download of its dependencies.
const buildTimeout = 5 * time.Minute

// shared is the Java process of all tests that do not kill it. The first test that needs it starts it.
var shared *redisson.Process

func startJava() (*redisson.Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	return redisson.Start(ctx, os.Stderr)
}

// needed skips a test if there is no Maven or JDK, which is the only reason to skip. If QUORUMLOCK_REDISSON is
// "required", the test fails instead.
func needed(t *testing.T, process *redisson.Process, err error) *redisson.Process {
	t.Helper()
	if errors.Is(err, redisson.ErrMissing) && os.Getenv("QUORUMLOCK_REDISSON") != "required" {
		fmt.Fprintf(os.Stderr, "%s is skipped: %v\n", t.Name(), err)
		t.Skip(err)
	}
	require.NoError(t, err)
	return process
}
