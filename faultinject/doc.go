// Package faultinject breaks what locks rest on, so that tests can show what holds then.
//
// It is for the tests of this library, and for those of services that use it. From fast
// to real, with one vocabulary of faults:
//
//   - [Wrap] puts rules before a node.Node: calls fail before or after they ran, are late,
//     doubled, hung or held at a gate, within the process and without a server.
//   - [Proxy] is a TCP proxy between a client and a server, which delays, throttles, cuts,
//     or goes silent in either direction.
//   - A [Server] is a Redis server that can be killed, paused, emptied, cut off or given
//     another clock: a process in package process, a container in package container.
//   - A [Plan] is a schedule of such faults, drawn from a seed by a [Nemesis], printed as
//     text and replayed from it.
//
// Package sim runs the real coordinator through such plans in virtual time, package chaos
// on real servers, and package history checks what clients saw.
package faultinject
