// Package text puts facts into words: tables, lines of limited width, times, and the errors of nodes.
package text

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Columns is the largest width of texts that people read.
const Columns = 90

// Table is rows of cells, laid out in columns. The first row is the heading.
type Table struct{ rows [][]string }

// NewTable makes a table with a heading.
func NewTable(headings ...string) *Table { return &Table{[][]string{headings}} }

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// String returns the laid out rows.
func (t *Table) String() string {
	var laid bytes.Buffer
	w := tabwriter.NewWriter(&laid, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a buffer takes everything
	var text strings.Builder
	for line := range strings.Lines(laid.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return text.String()
}

// PrintJSON prints a report for scripts.
func PrintJSON(w io.Writer, report any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}

// Folded breaks text into lines, between words only.
func Folded(text string, columns int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line == "" {
		return lines
	}
	return append(lines, line)
}

// Escaped makes characters visible that would move the cursor, or begin a line that looks like one of quorumlock's own.
func Escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// OrDash returns the escaped text, or a dash for a cell without text.
func OrDash(text string) string { return cmp.Or(Escaped(text), "-") }

// Plural counts things.
func Plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// Nodes counts nodes.
func Nodes(n int) string { return Plural(n, "node") }

// Enumerated joins words to a list in a sentence.
func Enumerated(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// Span formats a remaining time for reading. It does not round down: after that time, the wait must be over.
func Span(d time.Duration) string {
	unit := 100 * time.Millisecond
	if d < time.Second {
		unit = time.Millisecond
	}
	return (d + unit - 1).Truncate(unit).String()
}

// Rounded rounds a measured time to about three digits.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}

// Milliseconds is a time for JSON, to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
