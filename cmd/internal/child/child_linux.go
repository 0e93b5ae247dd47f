package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// signalOnDeath makes the kernel signal the command when quorumlock dies.
func signalOnDeath(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }

// adopt makes this process the parent of orphans while a command is being stopped. In a container whose first process
// reaps no children, they would stay zombies and look alive.
func adopt(yes bool) {
	on := uintptr(0)
	if yes {
		on = 1
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) // without it, the stop takes longer at worst
}

// reap removes ended orphans of a process group that this process adopted.
func reap(group int) {
	for {
		pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}
