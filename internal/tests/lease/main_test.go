// Package lease tests the life of a lease: acquisition, renewal, expiry, loss and release.
package lease_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
