// Package process runs Redis servers as processes that can be broken: a [faultinject.Server]
// each. It needs redis-server on PATH, and libfaketime for stepped clocks.
//
// A server listens on loopback behind a [faultinject.Proxy], which is where it is cut off. It
// ends with the program that started it on Linux; elsewhere, only Close ends it for sure.
package process
