// Package waiting tests how callers wait for locks: queues on the nodes, wake-ups, fairness,
// hand-overs.
package waiting_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
