package worker

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/bench/cell"
)

// Witness records the holders of locks, in memory that all workers of a cell share. It has one slot for each lock.
type Witness struct{ slots []slot }

// slot is the state of one lock. It fills a cache line.
type slot struct {
	holders  atomic.Int64
	grants   atomic.Int64
	released atomic.Int64 // when the last holder began its release, by [cell.Now]; 0 for never
	_        [5]int64
}

const slotSize = int(unsafe.Sizeof(slot{}))

// CreateWitness creates the file of a witness with a slot for each lock. The file is sparse.
func CreateWitness(path string, locks int) error {
	return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, int64(locks*slotSize)))
}

// OpenWitness maps a file that CreateWitness made, until this process ends.
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
	return &Witness{unsafe.Slice((*slot)(unsafe.Pointer(&memory[0])), len(memory)/slotSize)}, nil
}

type grant struct {
	// allowed is false if another caller still holds the lock.
	allowed bool
	number  int64
	// sinceRelease is the time in nanoseconds since the last holder began its release; 0 if there was none.
	sinceRelease int64
}

func (w *Witness) enter(lock int) grant {
	s := &w.slots[lock]
	g := grant{allowed: s.holders.Add(1) == 1, number: s.grants.Add(1)}
	if released := s.released.Load(); released != 0 {
		g.sinceRelease = cell.Now() - released
	}
	return g
}

// leave records that a caller is about to release the lock.
func (w *Witness) leave(lock int) {
	s := &w.slots[lock]
	s.released.Store(cell.Now())
	s.holders.Add(-1)
}

// grantsOf returns the number of grants of the lock so far.
func (w *Witness) grantsOf(lock int) int64 { return w.slots[lock].grants.Load() }
