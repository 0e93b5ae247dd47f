// Package worker is the child process in which the clients of a cell run, so that nothing of
// one cell is left in the next, and that what a client costs can be told.
//
// A worker speaks with the runner in lines of JSON. It gets a [Job] and says [Ready]; it gets
// a line and makes its callers run; it says [Outcome]; it gets a line, closes its client, and
// says [Closed]. When its input ends, it does too.
package worker
