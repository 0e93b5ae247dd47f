package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
)

// TestLinks checks every link of every document to a file of this project, and to the heading in it.
func TestLinks(t *testing.T) {
	docs := documents(t)
	anchors := map[string][]string{}
	for _, d := range docs {
		anchors[d.path] = d.anchors()
	}
	for _, d := range docs {
		_, prose := d.blocks()
		for i, line := range prose {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				target, anchor, _ := strings.Cut(m[1], "#")
				path := d.path
				if target != "" {
					path = filepath.Join(filepath.Dir(d.path), target)
				}
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", d.path, i+1, m[1])
				} else if anchor != "" && !slices.Contains(anchors[path], anchor) {
					t.Errorf("%s:%d: %s has no heading %q", d.path, i+1, path, anchor)
				}
			}
		}
	}
}

// anchors returns the anchors of a document's headings.
func (d document) anchors() (all []string) {
	_, prose := d.blocks()
	for _, line := range prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			all = append(all, anchorOf(m[1]))
		}
	}
	return all
}

// anchorOf returns the anchor that GitHub makes of a heading.
func anchorOf(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, text)
}
