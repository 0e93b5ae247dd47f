package clock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// interruptTime is QueryInterruptTimePrecise (Windows 10 and later): the time
// since boot with suspends counted, in units of 100 ns.
var interruptTime = windows.NewLazySystemDLL("kernelbase.dll").NewProc("QueryInterruptTimePrecise")

// sinceBoot is chosen once, since two clocks must not take turns.
// DurationSinceBoot counts suspends too but moves in ticks of about 16 ms, by
// which a lease may then be thought valid too long; it is a last resort.
var sinceBoot = func() func() time.Duration {
	if interruptTime.Find() != nil {
		return windows.DurationSinceBoot
	}
	return func() time.Duration {
		var ticks uint64
		interruptTime.Call(uintptr(unsafe.Pointer(&ticks))) //nolint:errcheck // it returns nothing
		return time.Duration(ticks) * 100
	}
}()

func now() time.Duration { return sinceBoot() }
