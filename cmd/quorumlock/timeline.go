package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Colours of the actors, as terminals number them.
const (
	colourA     = "36" // cyan
	colourB     = "33" // yellow
	colourNodes = "35" // magenta
	colourPlain = ""
)

// timeline prints events with the time since its start and their actor.
type timeline struct {
	w      io.Writer
	began  time.Time
	colour bool

	mu sync.Mutex
}

// newTimeline makes a timeline that begins now.
func newTimeline(w io.Writer) *timeline {
	return &timeline{w: w, began: time.Now(), colour: wantsColour(w)}
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

func (t *timeline) tell(actor, colour, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	who := fmt.Sprintf("%-5s", actor)
	if t.colour && colour != colourPlain {
		who = "\x1b[1;" + colour + "m" + who + "\x1b[0m"
	}
	elapsed := time.Since(t.began).Seconds()
	fmt.Fprintf(t.w, "%6.2f s  %s  %s\n", elapsed, who, fmt.Sprintf(format, args...))
}

func (t *timeline) chapter(title string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.colour {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintf(t.w, "\n%s\n", title)
}
