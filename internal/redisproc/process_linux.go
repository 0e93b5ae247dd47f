package redisproc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// endWithParent has the kernel kill the child when this process dies, however it dies.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// allStopped tells whether each thread of the process is in state T.
func allStopped(pid int) (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) == 0 {
		return false, err
	}
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // a thread that ended meanwhile: look again
		}
		if err != nil {
			return false, err
		}
		// The state follows the name, which is in parentheses and may contain anything.
		_, afterName, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if !ok || !bytes.HasPrefix(afterName, []byte("T")) {
			return false, nil
		}
	}
	return true, nil
}
