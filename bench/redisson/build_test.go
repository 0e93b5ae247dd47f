package redisson_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/redisson"
)

// A second Build finds the program of the first one, and needs no Maven.
func TestBuild(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	jar, err := redisson.Build(ctx)
	needed(t, nil, err)
	require.FileExists(t, jar)

	tools := t.TempDir()
	for _, tool := range []string{"mvn", "javac", "java"} {
		require.NoError(t, os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	}
	t.Setenv("PATH", tools)
	again, err := redisson.Build(ctx)
	require.NoError(t, err)
	require.Equal(t, jar, again)

	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err = redisson.Build(ctx)
	require.Error(t, err, "a failed build is not kept")

	t.Setenv("PATH", t.TempDir())
	_, err = redisson.Build(ctx)
	require.ErrorIs(t, err, redisson.ErrMissing)
}
