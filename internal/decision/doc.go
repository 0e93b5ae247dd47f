// Package decision holds the decisions of a distributed lock, without anything
// that could act on them: which votes win a round, until when a lease may be
// relied on, when to renew it, and how long to wait for one that is taken.
//
// Everything here is a pure function of its arguments. The package knows no
// node, starts no goroutine, reads no clock and draws no random number: time
// comes in as an argument, and so does jitter, as a number in [0,1). Values
// of this package are not safe for concurrent use while they are written;
// the functions are.
//
// An instant is a [time.Duration] since an origin that only the local clock
// knows, as package clock gives it. Where an instant stands for a claim on a
// node, zero or less means that there is no claim.
package decision
