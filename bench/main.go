// Command bench measures this library side by side with others, and with the lowest possible cost of a lock, and
// writes a report.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorumlock/quorumlock/bench/render"
	"github.com/quorumlock/quorumlock/bench/runner"
	"github.com/quorumlock/quorumlock/bench/worker"
)

func main() {
	worker.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the command: it writes the progress to w and the results to files.
func run(ctx context.Context, args []string, w io.Writer) error {
	report, err := report(ctx, args, w)
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range report.Results {
		if r.Error != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d cells failed; the report says why", failed)
	}
	return nil
}

// report measures, and writes and returns the report.
func report(ctx context.Context, args []string, w io.Writer) (*render.Report, error) {
	s, err := parse(args, w)
	if err != nil {
		return nil, err
	}
	cells, err := s.options.Plan()
	if err != nil {
		return nil, err
	}
	if len(cells) == 0 {
		return nil, errors.New("nothing to measure: none of the selected scenarios has any of the selected peers")
	}
	tell := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	results := runner.Run(ctx, s.options, cells, tell)
	report := render.New(s.options, cells, results)
	if err := render.Write(s.out, report); err != nil {
		return nil, err
	}
	tell("written: %s/results.md", s.out)
	if s.options.Quick {
		tell("This was a quick run: its figures mean nothing.")
	} else {
		tell("\n%s", report.Goals())
	}
	return report, nil
}
