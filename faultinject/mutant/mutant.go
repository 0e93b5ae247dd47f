package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one way in which the protocol would be wrong.
type Mutant struct {
	// Name is short, in lower case with hyphens, and unique.
	Name string
	// Rule is the rule that the mutant lacks, and Then what goes wrong without it.
	Rule, Then string
	// World is set if it is not the protocol that is changed but what it assumes of the
	// world, as the simulation has it: the promises end where the assumptions do.
	World bool
	// Real is set if it changes what runs on Redis servers only, or what the simulation has
	// none of: latches, and locks that are joined. The simulation does not see it; package chaos
	// does, with an overlay.
	Real bool
	// Kind is the kind of cases that it takes to find it, as sim.Kind; of locks if it is empty.
	Kind string
	// Edits make the mutant of the source.
	Edits []Edit
}

// Edit replaces a piece of a source file.
type Edit struct {
	// File is the path from the root of the repository, with slashes.
	File string
	// Old is the piece, which must stand in the file exactly once, and New what stands there
	// instead.
	Old, New string
}

// Apply writes the changed copies of the files to a directory, which exists, and beside
// them an overlay, whose path it returns: `go build -overlay` and `go test -overlay` build
// the mutant with it, and the source stays as it is. root is the root of the repository.
//
// It fails if an edit does not fit the source any more: the mutant is to be brought up to
// date then, as it stands for a rule that still has to be tested. It may be repeated.
func (m Mutant) Apply(root, dir string) (overlay string, err error) {
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

// change reads the files that are edited, and returns what they are after that.
func (m Mutant) change(root string) (map[string]string, error) {
	changed := make(map[string]string)
	for i, e := range m.Edits {
		text, ok := changed[e.File]
		if !ok {
			read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("edit %d: %s has this %d times instead of once:\n%s", i+1, e.File, n, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// write puts changed files into a directory, with the overlay that has them built.
func write(root, dir string, changed map[string]string) (overlay string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	// The format is that of the flag -overlay.
	var replaced struct{ Replace map[string]string }
	replaced.Replace = make(map[string]string)
	for file, text := range changed {
		// Flat, but with its extension, which is how the compiler knows what it is.
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
