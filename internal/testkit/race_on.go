//go:build race

package testkit

// Raced says whether this is the race detector's build, which runs up to ten times slower and reserves terabytes of addresses.
const Raced = true
