// Package watchdog has a test that never ends say so.
package watchdog

import (
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// Watch ends the process if the test goes on for longer than most. Without it, a test that never ends keeps
// all others waiting until the time of the whole package is up, and its name stands before the
// stacks of all goroutines, which are so long that it is what is cut off. Here it comes last.
//
// Benchmarks go on for as long as one likes, and are not watched.
func Watch(t testing.TB, most time.Duration) {
	t.Helper()
	if _, benchmark := t.(*testing.B); benchmark {
		return
	}
	timer := time.AfterFunc(most, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		fmt.Fprintf(os.Stderr, "\n%s has gone on for more than %v: what it waits for is in the stacks above\n", t.Name(), most)
		os.Exit(2)
	})
	t.Cleanup(func() { timer.Stop() })
}
