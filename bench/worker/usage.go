package worker

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what this process has used so far.
type usage struct {
	mallocs, bytes uint64
	cpu            time.Duration
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // it cannot fail
	return usage{
		mallocs: m.Mallocs, bytes: m.TotalAlloc,
		cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano()),
	}
}

// heap is what is in use after what can be collected was.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled waits a little for goroutines that are about to end, and returns how many there
// are.
func settled(most int64) int64 {
	const patience, look = time.Second, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && goroutines() > most; {
		time.Sleep(look)
	}
	return goroutines()
}

func goroutines() int64 { return int64(runtime.NumGoroutine()) }
