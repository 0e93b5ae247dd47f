package render

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The marks in a document between which its figures are.
const (
	beginMark = "<!-- figures: begin -->\n"
	endMark   = "<!-- figures: end -->\n"
)

// CheckDocument says why [Report.Document] could not write there.
func CheckDocument(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := strings.Index(string(text), beginMark), strings.Index(string(text), endMark)
	if begin < 0 || end < begin {
		return fmt.Errorf("%s: no place for the figures: it needs the lines %q and %q", path, beginMark, endMark)
	}
	return nil
}

// Document replaces the figures in a Markdown document, and writes its chart beside it.
func (r *Report) Document(path string) error {
	if err := CheckDocument(path); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, _ := strings.Cut(string(old), beginMark)
	_, after, _ := strings.Cut(rest, endMark)
	picture := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	if err := os.WriteFile(picture, []byte(chart(r.rowsOf("newnames"))), 0o644); err != nil {
		return err
	}
	text := fmt.Sprintf("%s\n![operations a second with new names, by callers](%s)\n", r.markdown(), filepath.Base(picture))
	return os.WriteFile(path, []byte(before+beginMark+"\n"+text+"\n"+endMark+after), 0o644)
}
