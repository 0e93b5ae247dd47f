// Package realtest has the tests of the library that need real Redis servers, and therefore run in real
// time. Their assertions are about the order of events, or hold on a machine of any speed. Tests that need no server are in
// internal/tests and beside the code: they run in virtual time, on in-memory nodes.
package realtest
