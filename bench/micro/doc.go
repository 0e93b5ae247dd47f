// Package micro has benchmarks of packages that have none of their own, with names for benchstat. The library and
// package node have their own benchmarks.
package micro
