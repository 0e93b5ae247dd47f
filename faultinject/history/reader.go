package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Read reads the file of one recorder. It ignores a torn last line. An error names the line.
func Read(in io.Reader) (*History, error) {
	var b builder
	if err := b.read("line ", in); err != nil {
		return nil, err
	}
	return b.history()
}

// ReadDir reads the files *.jsonl in a directory as one history of all clients. It ignores a torn last line of each
// file. An error names file and line. ReadDir fails if there is no such file.
func ReadDir(dir string) (*History, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("faultinject: reading histories: %w", err)
	}
	var b builder
	files := 0
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		files++
		if err := b.readFile(filepath.Join(dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	if files == 0 {
		return nil, fmt.Errorf("faultinject: reading histories: no *%s in %s", suffix, dir)
	}
	return b.history()
}

func (b *builder) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("faultinject: reading histories: %w", err)
	}
	defer file.Close()
	return b.read(path+":", file)
}

// read reads the lines of a file. The place of a line is the prefix and its number.
func (b *builder) read(prefix string, in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("faultinject: history: %s%d: %w", prefix, n, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := b.parse(place{prefix, n}, line, last); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// parse reads a line. It ignores a torn line, which has no line end and is no JSON: a JSON object is complete only
// with its last character.
func (b *builder) parse(at place, line []byte, unterminated bool) error {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		if unterminated && !json.Valid(line) {
			return nil
		}
		return fmt.Errorf("faultinject: history: %s: %w", at, err)
	}
	return b.add(at, e)
}
