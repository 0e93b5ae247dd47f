//go:build !linux

package chaos

import "os/exec"

func endWithParent(*exec.Cmd) {}
