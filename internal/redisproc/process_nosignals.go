//go:build !unix

package redisproc

import (
	"errors"
	"os"
)

func suspend(*os.Process) error { return errors.ErrUnsupported }

func unsuspend(*os.Process) error { return errors.ErrUnsupported }

func terminate(*os.Process) error { return errors.ErrUnsupported }
