// Package worker is the child process that runs the clients of one cell. A process of its own keeps cells apart, and
// makes the cost of a client measurable.
//
// A worker and the runner exchange lines of JSON. The worker reads a [Job] and writes [Ready]. It reads a line, runs
// its callers, and writes [Outcome]. It reads another line, closes its client, and writes [Closed]. The worker ends
// when its input ends.
package worker
