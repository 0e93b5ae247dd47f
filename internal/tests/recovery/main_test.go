// Package recovery tests what happens around nodes that lose their memory.
package recovery_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
