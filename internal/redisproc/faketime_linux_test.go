package redisproc

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFaketimeLeavesNoSharedMemory(t *testing.T) {
	s := Start(t, WithFaketime())
	left, err := filepath.Glob(fmt.Sprintf("/dev/shm/*faketime*_%d", s.PID()))
	require.NoError(t, err)
	assert.Empty(t, left)
}
