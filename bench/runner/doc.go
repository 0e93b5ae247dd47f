// Package runner plans which cells are measured, in which order, and measures each with
// servers and workers of its own.
package runner
