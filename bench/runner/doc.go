// Package runner plans the cells and their order, and measures each with its own servers and workers.
package runner
