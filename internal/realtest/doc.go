// Package realtest has the tests and benchmarks of the library that need real Redis servers, and so
// run in real time: what they assert is an order of events, or holds on a machine of any speed. What
// can be seen in virtual time, on in-memory nodes, is tested beside the code.
package realtest
