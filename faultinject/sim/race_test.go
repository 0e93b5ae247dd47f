//go:build race

package sim_test

// Fewer seeds, because the race detector is slow.
const defaultSeeds = 100
