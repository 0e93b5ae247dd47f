package worker

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// usage is the resources that this process has used so far.
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

// heap returns the heap in use after a garbage collection.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled waits briefly for goroutines that are about to end, and returns the number that remain.
func settled(most int64) int64 {
	const patience, look = time.Second, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && goroutines() > most; {
		time.Sleep(look)
	}
	return goroutines()
}

func goroutines() int64 { return int64(runtime.NumGoroutine()) }
