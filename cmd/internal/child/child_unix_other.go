//go:build unix && !linux

package child

import "syscall"

// signalOnDeath does nothing: this system has no such signal.
func signalOnDeath(*syscall.SysProcAttr) {}
