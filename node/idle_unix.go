//go:build unix

package node

import (
	"errors"
	"syscall"
)

// peek reports whether the socket has bytes or is closed, and leaves the bytes in it. It uses Control, since
// Read would fail by the deadline of the previous exchange.
func peek(socket syscall.Conn) socketState {
	raw, err := socket.SyscallConn()
	if err != nil {
		return socketClosed
	}
	state := socketClosed
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		for {
			// In Go every socket is non-blocking.
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EWOULDBLOCK):
				state = socketQuiet
			case err == nil && n > 0:
				state = socketReadable
			}
			return
		}
	})
	if err != nil {
		return socketClosed
	}
	return state
}
