package mutant

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is the code that the edits of one mutant may change.
type source struct {
	root  string
	world bool
	// text has the files that have been read, by their paths from the root, with slashes. All
	// of them are there once complete is set. Most mutants with a hint need one or two.
	text     map[string]string
	complete bool
	// changed has the files that edits have changed.
	changed map[string]string
}

// tests is the directory of the module that tests the protocol, and lists the directory of this
// package, which quotes the source in every edit.
const (
	tests = "faultinject/"
	lists = "faultinject/mutant/"
)

func newSource(root string, world bool) *source {
	return &source{root: root, world: world, text: make(map[string]string), changed: make(map[string]string)}
}

// change replaces the text of a file.
func (s *source) change(file, text string) {
	s.text[file], s.changed[file] = text, text
}

// find returns the file in which an edit fits: the file that it names, or else the only file
// that has its text, and has it once.
func (s *source) find(e Edit) (file string, err error) {
	if e.Old == "" {
		return "", errors.New("it replaces nothing")
	}
	if e.File != "" && s.hinted(e) {
		return e.File, nil
	}
	if err := s.readAll(); err != nil {
		return "", err
	}
	var found []string
	times := 0
	for file, text := range s.text {
		if n := strings.Count(text, e.Old); n > 0 && s.may(file) {
			found, times = append(found, file), times+n
		}
	}
	slices.Sort(found)
	switch times {
	case 0:
		return "", fmt.Errorf("the source does not have this any more:\n%s", e.Old)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("the source has this %d times instead of once, in %s:\n%s", times, strings.Join(found, ", "), e.Old)
	}
}

// hinted reports whether an edit fits in the file that it names. A file that is gone does no
// harm: the text may have moved.
func (s *source) hinted(e Edit) bool {
	if _, ok := s.text[e.File]; !ok {
		text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(e.File)))
		if err != nil {
			return false
		}
		s.text[e.File] = string(text)
	}
	return strings.Count(s.text[e.File], e.Old) == 1
}

// readAll reads all files that have not been read yet.
func (s *source) readAll() error {
	if s.complete {
		return nil
	}
	s.complete = true
	return filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(s.root, path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(relative)
		switch {
		case d.IsDir() && file != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !s.may(file) || s.has(file):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s.text[file] = string(text)
		return nil
	})
}

func (s *source) has(file string) bool {
	_, ok := s.text[file]
	return ok
}

// may reports whether the mutant may change a file that it does not name.
func (s *source) may(file string) bool {
	switch filepath.Ext(file) {
	case ".go":
		if strings.HasSuffix(file, "_test.go") {
			return false
		}
	case ".lua":
	default:
		return false
	}
	return strings.HasPrefix(file, tests) == s.world && !strings.HasPrefix(file, lists)
}
