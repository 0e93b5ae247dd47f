// Package micro has benchmarks of packages that have none of their own, with names that
// benchstat understands. Those of the library itself and of package node are where they are.
package micro
