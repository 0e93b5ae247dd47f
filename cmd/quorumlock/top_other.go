//go:build !unix

package main

import "os"

// screenSignals is empty: only Unix has signals about a terminal.
var screenSignals []os.Signal

func (s *screen) signalled(os.Signal) {}
