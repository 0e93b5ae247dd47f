//go:build race

package waiting_test

// lighter returns the second of two sizes of a crowd. The race detector needs no crowd, and makes one ten times slower.
func lighter[T any](_, raced T) T { return raced }
