// Package watchdog ends a hanging test with a message that names it.
package watchdog

import (
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// Watch ends the process if the test runs for longer than most. Without it, a hanging test blocks all others until
// the timeout of the whole package. That report begins with the test's name, followed by the stacks of all
// goroutines, and is so long that its beginning is cut off. Watch prints the name last.
//
// Benchmarks are not watched, because their length is up to the caller.
func Watch(t testing.TB, most time.Duration) {
	t.Helper()
	if _, benchmark := t.(*testing.B); benchmark {
		return
	}
	timer := time.AfterFunc(most, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		fmt.Fprintf(os.Stderr, "\n%s has run for more than %v: the stacks above show what it waits for\n", t.Name(), most)
		os.Exit(2)
	})
	t.Cleanup(func() { timer.Stop() })
}
