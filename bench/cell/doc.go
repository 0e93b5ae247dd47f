// Package cell has the words that the runner, the workers and the report share: what is
// measured, and what came out.
package cell
