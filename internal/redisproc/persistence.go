package redisproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// aof finds the file that the server appends to.
func (s *Server) aof() (path string, size int64, err error) {
	if path, err = s.aofPath(); err != nil {
		return "", 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
}

func (s *Server) aofPath() (string, error) {
	dir := filepath.Join(s.dir, "appendonlydir")
	manifest, err := os.ReadFile(filepath.Join(dir, "appendonly.aof.manifest"))
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(s.dir, "appendonly.aof"), nil // one file, before Redis 7
	}
	if err != nil {
		return "", err
	}
	name := lastIncrement(string(manifest))
	if name == "" {
		return "", fmt.Errorf("no increment in the manifest:\n%s", manifest)
	}
	return filepath.Join(dir, name), nil
}

// lastIncrement picks the file that is appended to from the files of a manifest, which are the base
// and increments to it, in order. A line is such as "file appendonly.aof.1.incr.aof seq 1 type i".
func lastIncrement(manifest string) (name string) {
	for line := range strings.Lines(manifest) {
		f := strings.Fields(line)
		if len(f) >= 6 && f[0] == "file" && f[4] == "type" && f[5] == "i" {
			name = f[1]
		}
	}
	return name
}
