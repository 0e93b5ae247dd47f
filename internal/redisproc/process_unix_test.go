//go:build unix

package redisproc

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKillReturnsOnceTheProcessIsGone(t *testing.T) {
	s := Start(t)
	pid := s.PID()
	require.True(t, running(pid))
	s.Kill()
	assert.False(t, running(pid))
}

// running tells whether a process of that id exists.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }
