// Package kinds tests the rules that hold for every kind of lock: for plain locks, readers and writers, permits, and
// several names.
package kinds_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
