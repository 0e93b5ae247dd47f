package worker

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// Witness sees who holds a lock, in memory that all workers of a cell share. It has one slot
// for each lock.
type Witness struct {
	memory []byte
	slots  []slot
}

// slot is what is known about one lock. It fills a cache line.
type slot struct {
	holders  atomic.Int64 // the weights of those who hold it
	arrivals atomic.Int64 // where callers meet
	grants   atomic.Int64
	last     atomic.Int64 // who had the lock last, counted from 1
	released atomic.Int64 // when that began to give it back, in nanoseconds of a clock that all processes share; 0 for never
	_        [3]int64
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
	// allowed is false if others held it still, so that it is more than may be held.
	allowed bool
	// switched is set if somebody else had it before.
	switched bool
	// number of the grants of this lock so far.
	number int64
	// sinceRelease is since the last holder began to give it back, in nanoseconds; 0 if
	// there was none.
	sinceRelease int64
}

// enter is called by who has got a lock, or a part of it. With that, no more than the limit
// may be held.
func (w *Witness) enter(lock, caller int, weight, limit int64) grant {
	s := &w.slots[lock]
	g := grant{allowed: s.holders.Add(weight) <= limit, number: s.grants.Add(1)}
	if released := s.released.Load(); released != 0 {
		g.sinceRelease = cell.Now() - released
	}
	last := s.last.Swap(int64(caller) + 1)
	g.switched = last != 0 && last != int64(caller)+1
	return g
}

// leave is called by who is about to release it.
func (w *Witness) leave(lock int, weight int64) {
	s := &w.slots[lock]
	s.released.Store(cell.Now())
	s.holders.Add(-weight)
}

// arrive is called by who is about to meet others, and arrived is how often it was.
func (w *Witness) arrive(lock int)        { w.slots[lock].arrivals.Add(1) }
func (w *Witness) arrived(lock int) int64 { return w.slots[lock].arrivals.Load() }

// grantsOf is how many there were so far.
func (w *Witness) grantsOf(lock int) int64 { return w.slots[lock].grants.Load() }
