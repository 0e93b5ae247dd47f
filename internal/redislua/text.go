package redislua

import (
	"slices"
	"strings"
)

// text is the value of a key that is a text. It consists of pages, each of which may be replaced, but never changes: so a
// copy of a long text is cheap. An empty page stands for zeros.
type text struct {
	length int
	pages  []string
}

const pageSize = 1024

var zeros = strings.Repeat("\x00", pageSize)

func (t *text) clone() text { return text{t.length, slices.Clone(t.pages)} }

func (t *text) page(i int) string {
	if t.pages[i] == "" {
		return zeros
	}
	return t.pages[i]
}

// read returns the bytes from one offset up to another, which the text has.
func (t *text) read(from, to int) string {
	if first := from / pageSize; (to-1)/pageSize == first {
		return t.page(first)[from-first*pageSize : to-first*pageSize]
	}
	var b strings.Builder
	for from < to {
		i := from / pageSize
		end := min(to, (i+1)*pageSize)
		b.WriteString(t.page(i)[from-i*pageSize : end-i*pageSize])
		from = end
	}
	return b.String()
}

// write writes at an offset. Zeros fill the gap behind a shorter text.
func (t *text) write(at int, s string) {
	t.length = max(t.length, at+len(s))
	if missing := (t.length+pageSize-1)/pageSize - len(t.pages); missing > 0 {
		t.pages = append(t.pages, make([]string, missing)...)
	}
	for s != "" {
		i, from := at/pageSize, at%pageSize
		n := min(len(s), pageSize-from)
		before := t.page(i)
		var b strings.Builder
		b.Grow(pageSize)
		b.WriteString(before[:from])
		b.WriteString(s[:n])
		b.WriteString(before[from+n:])
		t.pages[i] = b.String()
		at, s = at+n, s[n:]
	}
}
