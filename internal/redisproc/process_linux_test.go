package redisproc

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServerEndsWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanEnv+"=1")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())

	var pid int
	var dir string
	_, err = fmt.Fscan(out, &pid, &dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.True(t, running(pid))

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait(), "killed")
	gone := poll(commandTimeout, func() bool { return !running(pid) || zombie(t, pid) })
	assert.True(t, gone, "the server lives on")
}

// zombie reports whether the process is dead, and only waits for its parent to collect it.
func zombie(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if os.IsNotExist(err) {
		return true
	}
	require.NoError(t, err)
	return strings.Contains(string(status), "State:\tZ")
}
