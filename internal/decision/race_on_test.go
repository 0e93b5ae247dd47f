//go:build race

package decision

// The race detector sees one goroutine where orders of events are enumerated, and makes it ten times slower.
const raced = true
