// Package cluster starts the servers of a cell, breaks them, and counts what they do.
package cluster
