package redisproc

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// The program of this test is redis-server, with the name of one imported function replaced.
func TestServerThatWouldCrashUnderFaketime(t *testing.T) {
	installed, err := exec.LookPath((&config{}).serverProgram())
	require.NoError(t, err)
	file, err := elf.Open(installed)
	require.NoError(t, err)
	imported, err := file.ImportedSymbols()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	i := slices.IndexFunc(imported, func(s elf.ImportedSymbol) bool { return len(s.Name) == len("dallocx") })
	require.NotEqual(t, -1, i)
	text, err := os.ReadFile(installed)
	require.NoError(t, err)
	unfit := filepath.Join(t.TempDir(), "redis-server")
	require.NoError(t, os.WriteFile(unfit, bytes.ReplaceAll(text, []byte("\x00"+imported[i].Name+"\x00"), []byte("\x00dallocx\x00")), 0o700))

	_, err = TryLaunch(t.Context(), WithFaketime(), WithProgram(unfit))
	require.ErrorContains(t, err, unfit+" would crash under libfaketime")
	require.ErrorContains(t, err, ProgramEnv)
}
