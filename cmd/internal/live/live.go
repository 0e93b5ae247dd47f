// Package live shows pictures on a terminal, one after the other.
package live

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/report"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// Show shows a picture, and the next one after each interval, until a signal ends it.
func Show(ctx context.Context, out *os.File, interval time.Duration, picture *report.Top, next func(context.Context) *report.Top) error {
	s := &screen{out: out, colour: text.WantsColour(out)}
	events := make(chan os.Signal, 16)
	signal.Notify(events, slices.Concat(exit.Ending, screenSignals)...)
	defer signal.Stop(events)
	ctx, cancel := context.WithCancel(ctx)
	pictures := series(ctx, interval, next)
	s.open()
	defer func() {
		s.close() // first: a hanging node may delay a round for a while
		cancel()
		for range pictures { // until the channel is closed
		}
	}()
	for {
		s.show(picture)
		select {
		case picture = <-pictures:
		case <-ctx.Done():
			return ctx.Err()
		case sig := <-events:
			switch {
			case sig == os.Interrupt:
				return nil
			case slices.Contains(exit.Ending, sig):
				return exit.Silent(exit.OfSignal(sig))
			default:
				s.signalled(sig)
			}
		}
	}
}

// series delivers a picture after each interval. It closes the channel when ctx has ended.
func series(ctx context.Context, interval time.Duration, next func(context.Context) *report.Top) <-chan *report.Top {
	pictures := make(chan *report.Top)
	go func() {
		defer close(pictures)
		for {
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return
			}
			picture := next(ctx)
			select {
			case pictures <- picture:
			case <-ctx.Done():
				return
			}
		}
	}()
	return pictures
}

// screen is a terminal that shows one picture at a time. Closing it restores the previous content.
type screen struct {
	out    *os.File
	colour bool
}

// Terminal sequences for the alternate screen, an invisible cursor, and no line wrapping.
const (
	Enter       = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	Leave       = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toTheTop    = "\x1b[H"
	toLineEnd   = "\x1b[K"
	toScreenEnd = "\x1b[J"
)

func (s *screen) open()  { fmt.Fprint(s.out, Enter) }
func (s *screen) close() { fmt.Fprint(s.out, Leave) }

// show replaces the picture in one write, because a partial picture would flicker.
func (s *screen) show(picture *report.Top) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	lines := picture.Lines(report.Screen{Width: width, Height: height, Colour: s.colour})
	fmt.Fprint(s.out, toTheTop+strings.Join(lines, toLineEnd+"\r\n")+toLineEnd+toScreenEnd)
}
