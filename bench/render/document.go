package render

import (
	"fmt"
	"os"
	"strings"
)

// The marks in a document between which its figures are.
const (
	beginMark = "<!-- figures: begin -->\n"
	endMark   = "<!-- figures: end -->\n"
)

// CheckDocument says why [Report.Document] could not write there.
func CheckDocument(path string) error {
	_, _, err := around(path)
	return err
}

// around returns what stands before and after the figures of a document.
func around(path string) (before, after string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	before, rest, begins := strings.Cut(string(text), beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", "", fmt.Errorf("%s: no place for the figures: it needs the lines %q and %q", path, beginMark, endMark)
	}
	return before, after, nil
}

// Document replaces the figures in a Markdown document.
func (r *Report) Document(path string) error {
	before, after, err := around(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n"+r.markdown()+"\n"+endMark+after), 0o644)
}
