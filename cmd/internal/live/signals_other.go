//go:build !unix

package live

import "os"

var screenSignals []os.Signal

func (s *screen) signalled(os.Signal) {}
