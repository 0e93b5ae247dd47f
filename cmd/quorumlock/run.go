package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/child"
	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

func runCommand(a *app) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run --key KEY [flags] -- COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long:  runHelp + exit.Help,
		Example: `  quorumlock run --nodes a:6379,b:6379,c:6379 --key nightly -- ./backup.sh
  quorumlock run --key nightly --wait 0s -- ./backup.sh || echo not now
  quorumlock run --key hourly --once 50m -- ./report.sh
  quorumlock run --multi --key stock --key orders -- ./reconcile
  quorumlock run --key workers --of 3 -- sh -c './work --port 900$QUORUMLOCK_PERMITS'
  quorumlock run --key prices --read -- ./report
  quorumlock run --embedded 3 --key k -- sh -c 'echo I am $QUORUMLOCK_OWNER'`,
		RunE: func(c *cobra.Command, args []string) error {
			f.waits = c.Flags().Changed("wait")
			if err := cmp.Or(positive(c, "ttl", f.ttl), a.nodes.check(c)); err != nil {
				return err
			}
			if !c.Flags().Changed("kill-after") {
				f.killAfter = min(defaultKillAfter, f.effectiveTTL(a.nodes.maxTTL)/3)
			}
			if err := f.check(args, a.nodes.maxTTL); err != nil {
				return wrongUsage(c, err)
			}
			return a.run(c, f, args)
		},
	}
	f.register(c)
	c.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault) // a command's arguments may be files
	return c
}

// run acquires the lock, runs the command, and releases the lock.
func (a *app) run(c *cobra.Command, f runFlags, args []string) error {
	command, err := child.New(args, a.stdin, a.stdout, a.stderr.direct())
	if err != nil {
		return err // before the lock is requested: no client must wait for a typing error
	}
	cfg, err := a.config(c)
	if err != nil {
		return err
	}
	last := &rounds{failed: make(chan quorumlock.AttemptFailedEvent, 1)}
	cfg.TTL, cfg.Hooks = f.ttl, quorumlock.MultiHooks(quorumlock.LogHooks(cfg.Logger), last.hooks())
	client, err := newClient(c, cfg)
	if err != nil {
		return err
	}
	defer a.closeClient(c.Context(), client)

	f.purpose = cmp.Or(f.purpose, purposeOf(args[0]))
	h := &holder{app: a, flags: f, client: client, locks: f.locks(client), rounds: last, signals: child.CatchSignals()}
	defer signal.Stop(h.signals)
	return h.hold(c.Context(), command)
}

// purposeOf derives the lock's purpose from the command; "" if that cannot be shown.
func purposeOf(command string) string {
	name := filepath.Base(command)
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if len(name) > quorumlock.MaxPurposeLength || strings.ContainsFunc(name, odd) {
		return ""
	}
	return name
}

// hold runs the command under the lock. In every case, it releases the lock last.
func (h *holder) hold(ctx context.Context, command *child.Command) error {
	if h.isDone(h.check(ctx)) {
		return nil
	}
	lease, err := h.acquire(ctx)
	if err != nil {
		return err
	}
	defer h.release(ctx, lease)
	ended, err := h.whileHeld(ctx, func(ctx context.Context) error { return h.checkUntilAnswered(ctx, lease) })
	if ended != nil {
		err = exit.Errorf(exit.OfSignal(ended), "%v before the command began", ended)
	}
	if err := cmp.Or(err, lease.Err()); err != nil {
		lease.WaiveMinHold()
		if h.isDone(err) {
			return nil
		}
		return err
	}
	began := h.client.Config().Clock.Now()
	if err := command.Start(environment(h.flags.keys, lease)); err != nil {
		lease.WaiveMinHold() // the job did not run, so another machine may run it now
		return err
	}
	defer command.End()
	if err := h.supervise(ctx, lease, command); err != nil || h.flags.once == 0 {
		return err
	}
	// The window counts from the start, as schedules do: a command that takes long does not cost the next run. Machines that
	// wait until the lock is free still find the record: it lasts a while longer.
	cfg := h.client.Config()
	took := cfg.Clock.Now() - began
	least := max(h.flags.minHold-took, 0) + max(min(cfg.TTL, h.flags.once/10), minOnce)
	left := max(h.flags.once-took, min(least, h.flags.once))
	_, err = h.whileHeld(ctx, func(ctx context.Context) error {
		return h.work(left.Truncate(time.Millisecond)).Record(ctx, lease.Lease)
	})
	if errors.Is(err, quorumlock.ErrUnrecorded) && !errors.Is(err, quorumlock.ErrLost) {
		return &exit.Error{Code: exit.NoQuorum, Err: err}
	}
	return err
}

// whileHeld calls a function while no command is at work. The context of the function also ends when a signal asks quorumlock
// to end, and after a TTL: nodes that refuse a record, because they are out of memory, renew the lease for ever.
func (h *holder) whileHeld(ctx context.Context, f func(ctx context.Context) error) (ended os.Signal, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.client.Config().TTL)
	defer cancel()
	outcome := make(chan error, 1)
	go func() { outcome <- f(ctx) }()
	for {
		select {
		case sig := <-h.signals:
			if slices.Contains(exit.Ending, sig) { // others are for the command
				ended = sig
				cancel()
			}
		case err := <-outcome:
			return ended, err
		}
	}
}

// work returns the description of the command as work that is done once, for --once.
func (h *holder) work(window time.Duration) *quorumlock.Once {
	return h.client.Once(h.flags.keys[0], quorumlock.OnceOptions{Window: window})
}

// check returns a DoneError if a run within the window of --once has succeeded. A lack of nodes is no error before the
// lock is acquired, since that waits for them.
func (h *holder) check(ctx context.Context) error {
	if h.flags.once == 0 {
		return nil
	}
	return h.work(h.flags.once).Check(ctx)
}

// checkUntilAnswered is check under the lock: it goes on while too few nodes answer.
func (h *holder) checkUntilAnswered(ctx context.Context, lease *lease) error {
	for {
		// The timeouts of the nodes bound a question. The end of ctx would hide their answers.
		err := h.check(context.WithoutCancel(ctx))
		if !errors.Is(err, quorumlock.ErrNoQuorum) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-lease.Context().Done():
			return lease.Err()
		case <-time.After(h.client.Config().RetryMax):
		}
	}
}

// isDone reports whether the command need not run, and then says why.
func (h *holder) isDone(err error) bool {
	if !errors.Is(err, quorumlock.ErrDone) {
		return false
	}
	h.say("%s", text.Plain(err))
	return true
}

// environment returns the environment of the command, with variables that describe the lock. They replace those of an
// outer quorumlock. The nodes' passwords are removed, which the command must not see.
func environment(keys []string, lease *lease) []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, nodesEnv+"=") })
	return append(inherited,
		"QUORUMLOCK_OWNER="+lease.Owner(),
		"QUORUMLOCK_TOKEN="+strconv.FormatUint(lease.Token(), 10),
		"QUORUMLOCK_KEY="+keys[0],
		"QUORUMLOCK_KEYS="+strings.Join(keys, "\n"),
		"QUORUMLOCK_PERMITS="+strings.Trim(fmt.Sprint(lease.Slots()), "[]"),
		"QUORUMLOCK_VALID_UNTIL="+lease.ValidUntil().UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	)
}
