//go:build go1.26

package sim

import (
	"testing"
	"testing/cryptotest"
)

// fixIDs makes the random ids of clients and servers those of the seed, so that the case can be played again.
func fixIDs(t *testing.T, seed uint64) { cryptotest.SetGlobalRandom(t, seed) }
