package mutant_test

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

// The files of mutants, one for each subject. A mutant begins with a line of its name. Its other attributes are lines,
// too: see [mutant]. Each line "edit", with or without the name of a file, begins an edit in the form of a diff: lines
// that stay begin with a space, removed lines with "-", and added lines with "+". The first and the last line of an
// edit may be parts of lines of the source.
//
//go:embed rules/*.txt
var rules embed.FS

// mutants lists the mutants, by subject. The slice is the caller's.
func mutants() []mutant {
	files, err := rules.ReadDir("rules")
	if err != nil {
		panic(err)
	}
	var all []mutant
	for _, file := range files {
		name := path.Join("rules", file.Name())
		text, err := rules.ReadFile(name)
		if err != nil {
			panic(err)
		}
		some, err := parse(string(text))
		if err != nil {
			panic(fmt.Sprintf("faultinject: %s: %v", name, err))
		}
		all = append(all, some...)
	}
	return all
}

// parse reads the mutants of a file, in the format of the files in rules.
func parse(text string) ([]mutant, error) {
	var all []mutant
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "mutant: "); ok {
			all = append(all, mutant{Name: name})
			continue
		}
		if len(all) == 0 || !all[len(all)-1].parse(line) {
			return nil, fmt.Errorf("line %d: %q", i+1, line)
		}
	}
	return all, nil
}

// parse reads a line about the mutant, and reports whether it is valid.
func (m *mutant) parse(line string) bool {
	switch key, value, _ := strings.Cut(line, ": "); key {
	case "rule":
		m.Rule = value
	case "then":
		m.Then = value
	case "kind":
		m.Kind = value
	case "world":
		m.World = true
	case "real":
		m.Real = true
	case "nightly":
		m.Nightly = true
	case "edit":
		m.Edits = append(m.Edits, edit{File: value})
	default:
		return len(m.Edits) > 0 && m.Edits[len(m.Edits)-1].parse(line[0], line[1:])
	}
	return true
}

// parse reads a line of the diff.
func (e *edit) parse(kind byte, text string) bool {
	if kind == ' ' || kind == '-' {
		e.Old = strings.TrimPrefix(e.Old+"\n"+text, "\n")
	}
	if kind == ' ' || kind == '+' {
		e.New = strings.TrimPrefix(e.New+"\n"+text, "\n")
	}
	return strings.IndexByte(" -+", kind) >= 0
}
