// Package lists tests programs whose lists of nodes differ: in virtual time, on nodes in memory.
package lists_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
