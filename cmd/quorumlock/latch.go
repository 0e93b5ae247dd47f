package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

const latchHelp = `A latch is set to a number, as many ids count down, and then all who wait go on. An id
counts once, however often it counts down, so a job may be repeated. 'quorumlock status'
shows a latch too.

  quorumlock latch set import 3        once, or by each of the jobs
  quorumlock latch down import $JOB    when a job is done
  quorumlock latch await import        until three jobs are done

The nodes keep a latch for --ttl after its last use; waiting is a use. Delete a latch to
set it anew.
`

type latchFlags struct {
	wait, ttl time.Duration
}

// defaultLatchWait is how long commands other than await go on while too few nodes answer.
const defaultLatchWait = 10 * time.Second

func latchCommand(a *app) *cobra.Command {
	var f latchFlags
	c := &cobra.Command{
		Use: "latch COMMAND", DisableFlagsInUseLine: true, Short: "Set, count down and await a latch", Long: latchHelp,
		// Otherwise an unknown command would print this help, and succeed.
		Args: arguments(cobra.NoArgs), RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, sub := range []struct {
		use, short string
		run        func(ctx context.Context, l *quorumlock.Latch, args []string) error
	}{
		{"set NAME COUNT", "Set a latch to a number", func(ctx context.Context, l *quorumlock.Latch, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return &quorumlock.InvalidError{Problems: []string{fmt.Sprintf("COUNT %q is not a number", args[1])}}
			}
			return l.Set(ctx, n)
		}},
		{"down NAME ID", "Count a latch down, once for each id", func(ctx context.Context, l *quorumlock.Latch, args []string) error {
			return l.CountDown(ctx, args[1])
		}},
		{"await NAME", "Wait until a latch has been counted down", func(ctx context.Context, l *quorumlock.Latch, _ []string) error {
			return l.Await(ctx)
		}},
		{"count NAME", "Print how many ids have not counted down yet", func(ctx context.Context, l *quorumlock.Latch, _ []string) error {
			left, err := l.Count(ctx)
			if err == nil {
				fmt.Fprintln(a.stdout, left)
			}
			return err
		}},
		{"delete NAME", "Delete a latch, so that it can be set anew", func(ctx context.Context, l *quorumlock.Latch, _ []string) error {
			return l.Delete(ctx)
		}},
	} {
		words := len(strings.Fields(sub.use)) - 1
		one := &cobra.Command{
			Use: sub.use, Short: sub.short,
			Args: arguments(cobra.ExactArgs(words)),
			RunE: func(c *cobra.Command, args []string) error {
				return a.latch(c, f, args[0], func(ctx context.Context, l *quorumlock.Latch) error { return sub.run(ctx, l, args) })
			},
		}
		one.Flags().DurationVar(&f.wait, "wait", 0, "how long to wait for the latch, or while too few nodes answer (default: forever for await, 10s for the others)")
		one.Flags().DurationVar(&f.ttl, "ttl", 24*time.Hour, "how long the nodes keep an unused latch")
		c.AddCommand(one)
	}
	return c
}

func (a *app) latch(c *cobra.Command, f latchFlags, name string, run func(context.Context, *quorumlock.Latch) error) error {
	given := c.Flags().Changed("wait")
	switch {
	case given && f.wait < 0:
		return wrongFlag(c, "--wait %v is negative", f.wait)
	case given && f.wait == 0 && c.Name() != "await":
		return wrongFlag(c, "--wait 0s leaves no time to ask the nodes")
	}
	if err := a.nodes.check(c); err != nil {
		return err
	}
	cfg, err := a.config(c)
	if err != nil {
		return err
	}
	client, err := newClient(c, cfg)
	if err != nil {
		return err
	}
	defer a.closeClient(c.Context(), client)
	l := client.Latch(name).With(quorumlock.LatchOptions{TTL: f.ttl})
	ctx := c.Context()
	switch awaits := c.Name() == "await"; {
	case awaits && given && f.wait == 0:
		run = countOnce
	case !given && !awaits:
		f.wait = defaultLatchWait
		fallthrough
	case given:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.wait)
		defer cancel()
	}
	err = run(ctx, l)
	switch {
	case errors.Is(err, quorumlock.ErrInvalid):
		return configProblem(c, err)
	case errors.Is(err, errNotDone):
		return &exit.Error{Code: exit.Held, Err: err}
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, quorumlock.ErrNoQuorum):
		said, _, _ := strings.Cut(text.Plain(err), ": gave up")
		if c.Name() != "await" { // it ended before it could ask the nodes
			return exit.Errorf(exit.NoQuorum, "no answer within --wait %v: %s", f.wait, said)
		}
		return exit.Errorf(exit.Held, "not done after --wait %v: %s", f.wait, said)
	default:
		return err
	}
}

var errNotDone = errors.New("the latch is not done")

// countOnce is an await that does not wait.
func countOnce(ctx context.Context, l *quorumlock.Latch) error {
	left, err := l.Count(ctx)
	if err == nil && left > 0 {
		return fmt.Errorf("%w: %s left to count down", errNotDone, text.Plural(left, "id"))
	}
	return err
}
