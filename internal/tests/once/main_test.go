// Package once tests work that is done once in a window: in virtual time, on nodes in memory.
package once_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
