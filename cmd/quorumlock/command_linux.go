package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// signalOnDeath has the command told when quorumlock dies without a chance to tell it.
func signalOnDeath(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }

// adopt makes this process the parent of those whose own parent ends, while a command
// is being stopped. In a container whose first process reaps nobody they would stay,
// dead but not gone, and look alive.
func adopt(yes bool) {
	on := uintptr(0)
	if yes {
		on = 1
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) // without it, the stop takes longer at worst
}

// reap removes those of a process group that were adopted and have ended.
func reap(group int) {
	for {
		pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
