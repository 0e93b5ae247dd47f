// Package cluster starts the servers of a cell, injects their faults, and counts their work.
package cluster
