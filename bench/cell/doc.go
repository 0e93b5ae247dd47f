// Package cell declares the types that the runner, the workers and the report share: a cell, which is one thing to
// measure, and its result.
package cell
