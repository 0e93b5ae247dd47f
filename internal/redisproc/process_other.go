//go:build !linux

package redisproc

import (
	"os/exec"
	"strconv"
	"strings"
)

// endWithParent does nothing: there is no such service here, and Close must do.
func endWithParent(*exec.Cmd) {}

func allStopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return strings.HasPrefix(strings.TrimSpace(string(state)), "T"), err
}
