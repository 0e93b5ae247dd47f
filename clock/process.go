package clock

import "time"

type process struct{ start time.Time }

// Process returns a clock on Go's own monotonic time, counted from this call.
// Inside a bubble of testing/synctest it is the fake time of that bubble, if
// it was made there, and that is what it is for.
//
// On most systems it stops during a suspend. So after the machine wakes, a lease may look valid
// although the nodes have long given the lock away. A program that may be suspended uses
// [System].
func Process() Clock { return process{start: time.Now()} }

func (p process) Now() time.Duration { return time.Since(p.start) }

func (process) Wall() time.Time { return time.Now().Round(0) }

func (process) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
