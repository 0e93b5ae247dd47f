// Package peer gives different distributed locks one interface, so that one harness can measure them all. Each peer
// has its own file.
package peer
