// Package redislua runs Lua scripts on a keyspace in memory, as a Redis server does: with its commands, its replies,
// its expiry, its errors, and the differences between its Lua and others.
//
// It exists so that tests in virtual time run the scripts that servers run, and not a copy of their rules. The caller
// controls everything that a server takes from outside: the clock, the answer to INFO, the subscribers, and whether
// memory is left. A differential test in package node compares it with a real server.
//
// It knows the commands that the scripts of this module use, and answers any other with an error.
package redislua
