// Package faultinject breaks the environment of locks, so that tests can show which promises hold then.
//
// It is for the tests of this library, and for the tests of services that use it. These tools share one
// vocabulary of faults:
//
//   - [Proxy] is a TCP proxy between a client and a server, which delays data, or withholds it silently in
//     either direction, and delivers what a client wrote late or twice.
//   - A [Server] is a Redis server that can be killed, paused, emptied, cut off or given
//     another clock: a process in package process, a container in package container.
//   - A [Plan] is a schedule of such faults, drawn from a seed by a [Nemesis], printed as
//     text and replayed from it.
//
// Package sim runs the real coordinator through such plans in virtual time. Package chaos runs it on real servers.
// Package history checks the recorded calls of clients.
//
// Use this module and the library in the same version.
package faultinject
