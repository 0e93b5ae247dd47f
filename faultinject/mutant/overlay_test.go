package mutant_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one wrong variant of the protocol.
type mutant struct {
	// Name is short, in lower case with hyphens, and unique.
	Name string
	// Rule is the rule that the mutant lacks, and Then the consequence.
	Rule, Then string
	// World is set if the mutant changes not the protocol but its assumptions about the world, in the simulation: the
	// promises end where the assumptions do.
	World bool
	// Real is set if the mutant changes only code for Redis servers, or features that the simulation lacks. The
	// simulation does not see it; package chaos does, with an overlay.
	Real bool
	// Nightly is set if finding the mutant may take minutes: only the nightly run looks for it.
	Nightly bool
	// Kind is the kind of cases that find it, as sim.Kind; plain locks if it is empty.
	Kind string
	// Edits turn the source into the mutant.
	Edits []edit
}

// edit replaces a piece of the source.
type edit struct {
	// File is a hint: the path of the file in which to look first, from the root of the repository, with slashes. It
	// is empty if Old occurs only once in the source, so that code can move between files and packages.
	File string
	// Old is the text, and New its replacement. Old must occur exactly once in File, or else exactly once in the
	// source that the mutant may change; see [mutant.apply].
	Old, New string
}

// apply writes the changed copies of the files to an existing directory, with an overlay, whose path it returns. `go
// build -overlay` and `go test -overlay` build the mutant with it, and the source stays as it is. root is the root of
// the repository.
//
// A mutant of the world changes the Go files and scripts below faultinject, any other mutant those outside of it.
// Tests, hidden directories and this package are never changed.
//
// apply fails if an edit does not fit the source any more. Then the mutant must be updated, because its rule must
// still be tested. apply may be repeated.
func (m mutant) apply(root, dir string) (overlay string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("faultinject: mutant %s: %w", m.Name, err)
	}
	changed, err := m.change(root)
	if err != nil {
		return "", fmt.Errorf("faultinject: mutant %s: %w", m.Name, err)
	}
	overlay, err = write(root, dir, changed)
	if err != nil {
		return "", fmt.Errorf("faultinject: mutant %s: %w", m.Name, err)
	}
	return overlay, nil
}

// change makes the edits, one after another, and returns the changed files. An edit may change the result of an
// earlier one.
func (m mutant) change(root string) (map[string]string, error) {
	s, err := newSource(root, m.World)
	if err != nil {
		return nil, err
	}
	for i, e := range m.Edits {
		file, err := s.find(e)
		if err != nil {
			return nil, fmt.Errorf("edit %d: %w", i+1, err)
		}
		s.change(file, strings.Replace(s.text[file], e.Old, e.New, 1))
	}
	return s.changed, nil
}

// write writes changed files into a directory, with the overlay for the build.
func write(root, dir string, changed map[string]string) (overlay string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	// The format of the flag -overlay.
	var replaced struct{ Replace map[string]string }
	replaced.Replace = make(map[string]string)
	for file, text := range changed {
		// A flat name with the file's extension, which the compiler needs.
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replaced.Replace[filepath.Join(root, filepath.FromSlash(file))] = path
	}
	text, err := json.MarshalIndent(replaced, "", "\t")
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
