// Package respguard watches the replies of a Redis server before a client library parses them.
//
// A client library trusts the lengths that a server announces: it reserves memory for them, and
// panics where that is impossible. One bad server then ends the process. [New] wraps a connection:
// its Read fails with a [Violation] instead of returning bytes that break RESP or a limit. The
// replies of this library's scripts stay far below all limits.
//
// The guard also counts commands and replies. A reply that no command asked for is a violation too.
//
// It allocates nothing as a rule, copies only what is not all there yet, and skips the contents of strings.
package respguard
