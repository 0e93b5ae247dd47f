//go:build !race

package node_test

// raced says whether this is the race detector's build, which reserves terabytes of addresses.
const raced = false
