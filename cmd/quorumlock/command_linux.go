package main

import "syscall"

// signalOnDeath has the command told when quorumlock dies without a chance to tell it.
func signalOnDeath(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
