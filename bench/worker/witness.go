package worker

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Witness sees who holds a lock, in memory that all workers of a cell share. It has one slot
// for each lock.
type Witness struct {
	memory []byte
	slots  []slot
}

// slot is what is known about one lock. It fills a cache line.
type slot struct {
	holders  atomic.Int64
	grants   atomic.Int64
	last     atomic.Int64 // who had the lock last, counted from 1
	released atomic.Int64 // when that began to give it back, in nanoseconds of a clock that all processes share; 0 for never
	_        [4]int64
}

const slotSize = int(unsafe.Sizeof(slot{}))

// CreateWitness makes the file of a witness for so many locks.
func CreateWitness(path string, locks int) error {
	return os.WriteFile(path, make([]byte, locks*slotSize), 0o600)
}

// OpenWitness opens such a file. It must be closed.
func OpenWitness(path string) (*Witness, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &Witness{
		memory: memory,
		slots:  unsafe.Slice((*slot)(unsafe.Pointer(&memory[0])), len(memory)/slotSize),
	}, nil
}

// Close ends it. No method may be called after that.
func (w *Witness) Close() error { return unix.Munmap(w.memory) }

// grant is what the witness saw when somebody got a lock.
type grant struct {
	// alone is false if somebody else held it still.
	alone bool
	// switched is set if somebody else had it before.
	switched bool
	// number of the grants of this lock so far.
	number int64
	// sinceRelease is since the last holder began to give it back, in nanoseconds; 0 if
	// there was none.
	sinceRelease int64
}

// enter is called by who has got a lock.
func (w *Witness) enter(lock, caller int) grant {
	s := &w.slots[lock]
	g := grant{alone: s.holders.Add(1) == 1, number: s.grants.Add(1)}
	if released := s.released.Load(); released != 0 {
		g.sinceRelease = sharedNow() - released
	}
	last := s.last.Swap(int64(caller) + 1)
	g.switched = last != 0 && last != int64(caller)+1
	return g
}

// leave is called by who is about to release it.
func (w *Witness) leave(lock int) {
	s := &w.slots[lock]
	s.released.Store(sharedNow())
	s.holders.Add(-1)
}

// grantsOf is how many there were so far.
func (w *Witness) grantsOf(lock int) int64 { return w.slots[lock].grants.Load() }

// sharedNow is the time by a clock that all processes share and nobody steps.
func sharedNow() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every system has it
	return t.Nano()
}
