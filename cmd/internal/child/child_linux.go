package child

import "syscall"

// signalOnDeath makes the kernel signal the command when quorumlock dies.
func signalOnDeath(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
