// Package process runs Redis servers as processes that can be broken: each is a [faultinject.Server]. It needs
// redis-server on PATH, and libfaketime for stepped clocks.
//
// A server listens on loopback behind a [faultinject.Proxy], which cuts it off. On Linux the server ends with the
// program that started it; elsewhere, only Close reliably ends it.
package process
