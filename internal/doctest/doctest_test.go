// Package doctest checks the documents of this module. Their links lead to existing targets, and their Go compiles.
// The handbook lists all errors and log lines, and the deployments can be started. It holds tests only.
package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the root directory of the module.
const root = "../.."

// document is one Markdown file.
type document struct {
	path  string // below root
	lines []string
}

// documents returns all Markdown files of the project.
func documents(t *testing.T) (docs []document) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "report" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			docs = append(docs, read(t, strings.TrimPrefix(path, root+"/")))
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return docs
}

func read(t *testing.T, path string) document {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return document{path: path, lines: strings.Split(string(text), "\n")}
}

// block is a code block of a document.
type block struct {
	// language follows the fence; indented blocks have none.
	language string
	indented bool
	line     int // of its first line, from 1
	text     string
}

// blocks returns the code blocks of a document, and its prose line by line. The prose has empty lines in place of
// code.
func (d document) blocks() (code []block, prose []string) {
	prose = make([]string, len(d.lines))
	var open *block
	for i, line := range d.lines {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case open != nil && !open.indented && fence:
			code, open = append(code, *open), nil
		case open != nil && !open.indented:
			open.text += line + "\n"
		case fence:
			open = &block{language: language, line: i + 2}
		case d.indented(i):
			if open == nil {
				open = &block{indented: true, line: i + 1}
			}
			open.text += strings.TrimPrefix(line, "    ") + "\n"
			if !d.indented(i + 1) {
				code, open = append(code, *open), nil
			}
		default:
			prose[i] = line
		}
	}
	return code, prose
}

// indented reports whether a line belongs to an indented block, and not to a paragraph of a list.
func (d document) indented(i int) bool {
	if i >= len(d.lines) || !strings.HasPrefix(d.lines[i], "    ") {
		return false
	}
	for i--; i >= 0; i-- {
		if line := d.lines[i]; line != "" && !strings.HasPrefix(line, "    ") {
			return !strings.HasPrefix(line, "- ") && !strings.HasPrefix(line, "  ") && d.lines[i+1] == ""
		}
	}
	return true
}
