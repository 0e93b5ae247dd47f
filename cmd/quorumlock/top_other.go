//go:build !unix

package main

import "os"

// screenSignals stands for what unix tells about a terminal.
var screenSignals []os.Signal

func (s *screen) signalled(os.Signal) {}
