package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// line is a line of text and its colour.
type line struct{ text, colour string }

// Colours of lines, as terminals number them.
const (
	colourHeading = "1"
	colourBad     = "31"
	colourUneasy  = "33"
	colourNote    = "36"
)

// painted puts text into a colour if colours are wanted. An empty colour is none.
func painted(text, colour string, wanted bool) string {
	if !wanted || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// wantsColour reports whether the output is a terminal whose user has not turned colours off (https://no-color.org).
func wantsColour(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// table is rows of cells, laid out in columns. The first row is the heading.
type table struct {
	rows    [][]string
	colours []string
}

func newTable(headings ...string) *table {
	return &table{rows: [][]string{headings}, colours: []string{""}}
}

func (t *table) add(colour string, cells ...string) {
	t.rows, t.colours = append(t.rows, cells), append(t.colours, colour)
}

func (t *table) lines() []line {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a buffer takes everything
	lines := make([]line, len(t.rows))
	for i, row := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		lines[i] = line{strings.TrimRight(row, " "), t.colours[i]}
	}
	return lines
}

func (t *table) text() string {
	var text strings.Builder
	for _, l := range t.lines() {
		text.WriteString(l.text + "\n")
	}
	return text.String()
}

func printJSON(w io.Writer, report any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(report)
}

// shortenedTo cuts longer text to the given number of letters, with a mark.
func shortenedTo(text string, letters int) string {
	if utf8.RuneCountInString(text) <= letters {
		return text
	}
	return string([]rune(text)[:max(letters-1, 0)]) + "…"
}

// folded breaks text into lines, between words only.
func folded(text string, columns int) (lines []string) {
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

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return escaped(text)
}

func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

func nodeCount(n int) string { return plural(n, "node") }

// enumerated joins words to a list in a sentence.
func enumerated(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// span formats a remaining time for reading. It does not round down: after that time, the wait must be over.
func span(d time.Duration) string {
	unit := 100 * time.Millisecond
	if d < time.Second {
		unit = time.Millisecond
	}
	return (d + unit - 1).Truncate(unit).String()
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
