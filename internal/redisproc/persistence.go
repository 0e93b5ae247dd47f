package redisproc

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Save writes a snapshot of the server's memory (SAVE). Each later start comes back with the latest
// snapshot, unless there is an append-only file, which has precedence.
func (s *Server) Save() {
	_, err := s.Command("SAVE")
	s.must("save", err)
}

// AOFSize is how many bytes the server has appended to its append-only file: a mark for
// [Server.TruncateAOF]. It needs [WithAOF], under which each write that was replied to is in.
func (s *Server) AOFSize() int64 {
	_, size, err := s.aof()
	s.must("find the append-only file", err)
	return size
}

// TruncateAOF cuts the append-only file back to a size from [Server.AOFSize], as if a machine had failed before the
// last writes reached its disk. The next start comes back without the later writes. The server must be down.
func (s *Server) TruncateAOF(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.must("truncate the append-only file", s.truncateAOF(size))
}

func (s *Server) truncateAOF(size int64) error {
	if s.running() {
		return errRunning
	}
	path, has, err := s.aof()
	if err != nil {
		return err
	}
	if size > has {
		return fmt.Errorf("it has %d bytes, fewer than %d", has, size)
	}
	return os.Truncate(path, size)
}

// aof finds the file that the server appends to: since Redis 7, the last increment, as their names have growing numbers.
func (s *Server) aof() (path string, size int64, err error) {
	path = filepath.Join(s.dir, "appendonly.aof")
	increments, _ := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof")) // the pattern is well formed
	if len(increments) > 0 {
		path = slices.MaxFunc(increments, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
}
