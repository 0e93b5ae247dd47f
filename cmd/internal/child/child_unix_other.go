//go:build unix && !linux

package child

import "syscall"

// signalOnDeath does nothing: this system has no such signal.
func signalOnDeath(*syscall.SysProcAttr) {}

// adopt does nothing: orphans go to init, which reaps them.
func adopt(bool) {}

func reap(int) {}
