package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// live shows reports on a terminal until a signal ends it.
func (a *app) live(ctx context.Context, out *os.File, interval time.Duration, report *topReport, look func(context.Context) *topReport) error {
	s := &screen{out: out, colour: wantsColour(out)}
	events := make(chan os.Signal, 16)
	signal.Notify(events, slices.Concat(ending, screenSignals)...)
	defer signal.Stop(events)
	ctx, cancel := context.WithCancel(ctx)
	reports := looks(ctx, interval, look)
	s.open()
	defer func() {
		s.close() // first: a hanging node may delay a round for a while
		cancel()
		for range reports { // until the channel is closed
		}
	}()
	for {
		s.show(report)
		select {
		case report = <-reports:
		case <-ctx.Done():
			return ctx.Err()
		case sig := <-events:
			switch {
			case sig == os.Interrupt:
				return nil
			case slices.Contains(ending, sig):
				return &exitError{code: signalCode(sig)}
			default:
				s.signalled(sig)
			}
		}
	}
}

// looks delivers a report after each interval. It closes the channel when ctx has ended.
func looks(ctx context.Context, interval time.Duration, look func(context.Context) *topReport) <-chan *topReport {
	reports := make(chan *topReport)
	go func() {
		defer close(reports)
		for {
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return
			}
			report := look(ctx)
			select {
			case reports <- report:
			case <-ctx.Done():
				return
			}
		}
	}()
	return reports
}

// screen is a terminal that shows one picture at a time. Closing it restores the previous content.
type screen struct {
	out    *os.File
	colour bool
}

// Terminal sequences for the alternate screen, an invisible cursor, and no line wrapping.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toTheTop    = "\x1b[H"
	toLineEnd   = "\x1b[K"
	toScreenEnd = "\x1b[J"
)

func (s *screen) open()  { fmt.Fprint(s.out, enterScreen) }
func (s *screen) close() { fmt.Fprint(s.out, leaveScreen) }

// show replaces the picture in one write, because a partial picture would flicker.
func (s *screen) show(r *topReport) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	lines := (&topText{width: width, height: height, colour: s.colour}).lines(r)
	fmt.Fprint(s.out, toTheTop+strings.Join(lines, toLineEnd+"\r\n")+toLineEnd+toScreenEnd)
}
