//go:build !unix

package redisproc

import (
	"errors"
	"os"
)

func suspend(*os.Process) error { return errors.ErrUnsupported }

func unsuspend(*os.Process) error { return errors.ErrUnsupported }

func terminate(*os.Process) error { return errors.ErrUnsupported }

// reserve does nothing: the port of a server that is down may be lost on this system.
func reserve(int) (release func(), err error) { return func() {}, nil }
