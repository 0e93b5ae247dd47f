//go:build unix

package redisproc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func unsuspend(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// reserve keeps a port for a server that is down, until the returned function is called. Connections to
// the port are refused, and no other process can listen there: a foreign server in the place of a dead
// one would answer its clients.
func reserve(port int) (release func(), err error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(socket)
	// The connections of the dead server may still have the port.
	err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil {
		err = unix.Bind(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	// Linux lets others listen beside a socket that has the option.
	if err == nil {
		err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
	}
	if err != nil {
		_ = unix.Close(socket)
		return nil, err
	}
	return func() { _ = unix.Close(socket) }, nil
}
