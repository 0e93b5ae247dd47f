// Package peer makes different distributed locks look alike, so that one harness can measure
// them all. Each of them is one file.
package peer
