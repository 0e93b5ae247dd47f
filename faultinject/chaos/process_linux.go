package chaos

import (
	"os/exec"
	"syscall"
)

// endWithParent ends a client with the program, even a frozen one that does not see the end of its standard input. A
// Ctrl-C does not reach the client: the program ends it.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
