//go:build unix

package child

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process, while the process has the foreground. All methods do nothing
// on nil.
type terminal struct {
	fd int
	// group is the process group that had the foreground before the command.
	group int
}

// foregroundTerminal returns stdin if it is a terminal and this process is in its foreground, and nil otherwise.
func foregroundTerminal(stdin io.Reader) *terminal {
	f, ok := stdin.(*os.File)
	if !ok {
		return nil
	}
	t := &terminal{fd: int(f.Fd()), group: unix.Getpgrp()}
	foreground, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || foreground != t.group {
		return nil
	}
	return t
}

// lent records that a command has got the foreground. From the background, this process must still print and take the
// terminal back. SIGTTOU would stop it for either, so it is ignored.
func (t *terminal) lent() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// reclaim takes the foreground back from the group of a command that has ended, if that group still has it. from is nil
// for a command that could not be executed. Its process had a group, which is gone.
func (t *terminal) reclaim(from *os.Process) {
	if t != nil {
		now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
		gone := from == nil && errors.Is(unix.Kill(-now, 0), unix.ESRCH)
		if err == nil && (gone || from != nil && now == from.Pid) {
			_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group) // a terminal that is gone needs no foreground
		}
	}
	signal.Reset(syscall.SIGTSTP, syscall.SIGTTOU)
}
