//go:build race

package sim_test

// The race detector takes its time.
const defaultSeeds = 100
