// Package exit has the exit codes of quorumlock, and the errors that carry them.
package exit

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// The exit codes of quorumlock itself. They avoid the codes that commands commonly use. From 124 to 127, they follow
// timeout, env and shells. Those of doctor follow the convention of monitoring plugins.
const (
	OK         = 0
	Warnings   = 1
	Errors     = 2
	Held       = 120
	NoQuorum   = 121
	Lost       = 122
	Failure    = 125
	NotRunning = 126
	NotFound   = 127
	// signalled is added to the number of a signal, as in shells.
	signalled = 128
)

// Help explains the exit codes, for --help.
const Help = `Exit codes:
  0        success; run: the command's own status, whatever it is
  1, 2     doctor: warnings, errors
  120      the lock was held by another, or a latch not done, when --wait was over
  121      no quorum: too few nodes answered, agreed or are ready; init: not all are open
  122      the lease was lost, or --max-hold was over: the command was stopped
  125      wrong usage, or another failure of quorumlock itself
  126      the command cannot be invoked
  127      the command was not found
  128+n    signal n ended the command, or the waiting for the lock`

// Error is an error with an exit code of its own.
type Error struct {
	Code int
	// Err is nil if the message has been printed, or none is needed.
	Err error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Silent returns an error for a reason that has been printed.
func Silent(code int) error { return &Error{Code: code} }

// Errorf returns an error with an exit code.
func Errorf(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Usage is wrong usage of a command, whose --help the message mentions.
type Usage struct {
	Command string
	Err     error
}

func (e *Usage) Error() string { return fmt.Sprintf("%v\nTry '%s --help'.", e.Err, e.Command) }

func (e *Usage) Unwrap() error { return e.Err }

// Code returns the code for any error. If both are true, "held" takes precedence over "no quorum": a held lock is
// the better news.
func Code(err error) int {
	var own *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &own):
		return own.Code
	case errors.Is(err, quorumlock.ErrHeld):
		return Held
	case errors.Is(err, quorumlock.ErrNoQuorum):
		return NoQuorum
	case errors.Is(err, quorumlock.ErrLost):
		return Lost
	default:
		return Failure
	}
}

// Message returns the text to print for an error, or "" for none.
func Message(err error) string {
	var own *Error
	if err == nil || errors.As(err, &own) && own.Err == nil {
		return ""
	}
	return text.Plain(err)
}

// OfSignal is the exit code for the end by a signal.
func OfSignal(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return signalled + int(s)
	}
	return Failure
}
