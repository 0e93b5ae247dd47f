// Package tokens tests that fencing tokens grow, whatever clocks and a minority of the nodes do.
package tokens_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
