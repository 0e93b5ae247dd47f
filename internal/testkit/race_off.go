//go:build !race

package testkit

// Raced says whether this is the race detector's build.
const Raced = false
