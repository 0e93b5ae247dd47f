package chaos

import (
	"os/exec"
	"syscall"
)

// endWithParent has a client end with the program, also one that is frozen, and so does not
// see that its standard input ended; and not by a Ctrl-C, upon which the program ends it.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
