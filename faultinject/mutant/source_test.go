package mutant_test

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
	// world is set for a mutant of the world: see [mutant.apply].
	world bool
	// text has the files, by their paths from the root, with slashes. changed has the files that edits have changed.
	text, changed map[string]string
}

// tests is the directory of the module that tests the protocol, and lists the directory of this package.
const (
	tests = "faultinject/"
	lists = "faultinject/mutant/"
)

// newSource reads all files that a mutant may change.
func newSource(root string, world bool) (*source, error) {
	s := &source{world: world, text: make(map[string]string), changed: make(map[string]string)}
	return s, fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !s.may(file):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		s.text[file] = string(text)
		return err
	})
}

func (s *source) change(file, text string) {
	s.text[file], s.changed[file] = text, text
}

// find returns the file in which an edit fits: the file that it names, or else the only file that has its text, and
// has it once.
func (s *source) find(e edit) (file string, err error) {
	if e.Old == "" {
		return "", errors.New("it replaces nothing")
	}
	if strings.Count(s.text[e.File], e.Old) == 1 {
		return e.File, nil
	}
	var found []string
	times := 0
	for file, text := range s.text {
		if n := strings.Count(text, e.Old); n > 0 {
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

// may reports whether the mutant may change a file.
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
