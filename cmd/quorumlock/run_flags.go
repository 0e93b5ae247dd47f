package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/decision"
)

// defaultKillAfter is the time between SIGTERM and SIGKILL, at most a third of the TTL.
const defaultKillAfter = 5 * time.Second

// A Once works with windows from minOnce to maxOnce.
const minOnce, maxOnce = time.Second, 365 * 24 * time.Hour

type runFlags struct {
	keys []string
	// multi, majority and read say how to take the lock. permits and of make it a semaphore.
	multi, majority, read bool
	permits, of           int
	ttl                   time.Duration
	wait                  time.Duration
	minHold, maxHold      time.Duration
	once                  time.Duration
	maxOutage             time.Duration
	killAfter             time.Duration
	purpose               string
	// waits is set if --wait was given, which bounds the wait.
	waits bool
}

const runHelp = `Runs a command while it holds a lock, and releases the lock when the command ends.

Without --wait it waits for the lock forever; --wait 0s tries once. --max-outage bounds
how long it goes on while too few nodes answer, apart from the wait for a holder.

By default the lock is exclusive, and needs a majority of the nodes. --read takes it as a
reader: any number of readers hold it at once, and no writer, which is a run without
--read. --of P makes it a semaphore of P permits; --permits says how many of them the
command needs. All programs must give the same P. A lock, a semaphore and a latch of one
name are independent. Several keys are taken all or none: with --majority each needs a
majority, with --multi all need all nodes.

The environment of the command has, as of its start:
  QUORUMLOCK_OWNER        the id of the lease, which is never used again, followed by this
                          host and process and the purpose of the lock, for people
  QUORUMLOCK_TOKEN        the fencing token, a number that is larger for every later lease
                          of any of the names. The resource should remember the largest
                          token that it has seen, and refuse smaller ones
  QUORUMLOCK_KEY          the lock's name, the first of several
  QUORUMLOCK_KEYS         all names, one on each line
  QUORUMLOCK_PERMITS      the numbers of the permits, from 0 to P - 1, space-separated.
                          No other command has one of them meanwhile. Empty for a lock
  QUORUMLOCK_VALID_UNTIL  the end of the lease's validity (RFC 3339, milliseconds); each
                          renewal extends it, so a command may rightly run on
QUORUMLOCK_NODES is removed, because of the passwords there: a command that uses
quorumlock itself must get its nodes in another way.

When the lease is about to be lost, because too few nodes confirm its renewal, the
command gets SIGTERM, and SIGKILL --kill-after later. SIGKILL comes before the end of
the lease. The lease ends a little before the nodes' keys expire (1% of the TTL and
2 ms, for clocks of different rates). So the command is dead before another client can
acquire the lock. That is why --kill-after is at most a third of the TTL: a renewal is
due after the first third, the second is for retries, and the last for the end of the
command. A shorter --kill-after survives longer failures. If the lease ends without
notice, by a forced release or a suspend of this machine, the same happens, but others
may have the lock already. --max-hold stops the command in the same way, while the lock
is still held.

On Unix the command gets its own process group. Signals that stop it go to the whole
group: also to the children of a shell, unless they left the group (daemons do).
SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the group, SIGUSR1 and SIGUSR2 to
the command alone. On a terminal the group is put in the foreground, so that Ctrl-C
reaches it once, from the terminal. Ctrl-Z is ignored: a stopped holder would keep or
lose the lock unnoticed. In the background, redirect the input of a command that reads
it: reading the terminal would stop the command. On Linux the command also gets SIGTERM
when quorumlock itself dies (kill -9), because the lease is no longer renewed. The
signal reaches only the command, not its children. On other systems the command gets no
signal, and continues without the lock.

When the command ends by itself, the lock is released at once: children that it leaves
in the background continue without the lock. With --min-hold the nodes keep the lock
until that time has passed since it was taken, and quorumlock does not wait for that. It
is at most --max-ttl, less 1% and 2 ms. A command that cannot start frees the lock at
once.

With --once WINDOW the nodes also record that the command has succeeded. Until WINDOW has
passed since the command began, and some seconds after it has ended, quorumlock says so
and ends with status 0, on all machines, also those that waited for the lock meanwhile.
If the command fails, one of those that wait runs theirs. So a job that a scheduler starts
on several machines runs once, however short it is, and whatever their clocks show. The
window is shorter than the time between two runs. If too few nodes record the success
within a TTL, the status is 121, and another machine may run the job too.

`

func (f *runFlags) register(c *cobra.Command) {
	flags := c.Flags()
	// Arguments after the command's name belong to the command, also without a "--".
	flags.SetInterspersed(false)
	flags.StringArrayVar(&f.keys, "key", nil, "the `name` of the lock; several need --majority or --multi")
	flags.BoolVar(&f.majority, "majority", false, "take the lock on a majority of the nodes, which is the default for one key, and all keys or none")
	flags.BoolVar(&f.multi, "multi", false, "take the lock on all nodes instead of a majority, and all keys at once")
	flags.BoolVar(&f.read, "read", false, "take the lock as one of its readers")
	flags.IntVar(&f.of, "of", 0, "take permits of a semaphore that has `P` of them, instead of a lock")
	flags.IntVar(&f.permits, "permits", 1, "take `N` permits of the semaphore")
	flags.DurationVar(&f.ttl, "ttl", 0, "how long the nodes keep the lock without renewal (default 10s, or --max-ttl if that is less)")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait for the lock; 0s tries once (default: forever)")
	flags.DurationVar(&f.maxOutage, "max-outage", 0, "how long to go on trying while too few nodes answer; less than 0s tries once (default: as long as --wait)")
	flags.StringVar(&f.purpose, "purpose", "", "what the lock is for; status shows it with this host and process (default: the command's name)")
	flags.DurationVar(&f.minHold, "min-hold", 0, "keep the lock for at least this time, even if the command ends earlier; at most --max-ttl, less 1% and 2 ms")
	flags.DurationVar(&f.once, "once", 0, "do nothing if a command that began within this `window` has succeeded, on any machine")
	flags.DurationVar(&f.maxHold, "max-hold", 0, "stop the command after this time (default: never)")
	flags.DurationVar(&f.killAfter, "kill-after", 0, "how long after SIGTERM to send SIGKILL, a third of the TTL at most (default 5s, or that third if it is less)")
}

// effectiveTTL is the TTL of the lock, or the library's default if none is given.
func (f *runFlags) effectiveTTL(maxTTL time.Duration) time.Duration {
	return cmp.Or(f.ttl, min(quorumlock.DefaultTTL, maxTTL))
}

// check validates the flags before anything is tried. The library itself checks names and the TTL.
func (f *runFlags) check(args []string, maxTTL time.Duration) error {
	third := f.effectiveTTL(maxTTL) / 3
	switch {
	case len(args) == 0:
		return errors.New("no command to run: put it after --")
	case len(f.keys) == 0:
		return errors.New("no --key: the lock needs a name")
	case f.multi && f.majority:
		return errors.New("--multi and --majority exclude each other")
	case len(f.keys) > 1 && (f.read || f.of != 0):
		return errors.New("--read and --of are for one key")
	case len(f.keys) > 1 && !f.multi && !f.majority:
		return fmt.Errorf("%d keys need --majority or --multi: a majority of the nodes for each key, or all nodes", len(f.keys))
	case len(f.keys) > quorumlock.MaxNames:
		return fmt.Errorf("%d keys are more than %d", len(f.keys), quorumlock.MaxNames)
	case f.read && f.of != 0, f.multi && (f.read || f.of != 0):
		return errors.New("--multi, --read and --of exclude each other")
	case f.of < 0:
		return fmt.Errorf("--of %d is negative", f.of)
	case f.permits != 1 && f.of == 0:
		return errors.New("--permits needs --of, the number of permits that there are")
	case f.wait < 0:
		return fmt.Errorf("--wait %v is negative", f.wait)
	case f.once != 0 && (len(f.keys) > 1 || f.read || f.of != 0):
		return errors.New("--once is for one key, without --read and --of")
	case f.once != 0 && f.once < minOnce:
		return fmt.Errorf("--once %v is less than %v", f.once, minOnce)
	case f.once > maxOnce:
		return fmt.Errorf("--once %v is more than %v", f.once, maxOnce)
	case f.maxHold < 0:
		return fmt.Errorf("--max-hold %v is negative", f.maxHold)
	case f.minHold < 0:
		return fmt.Errorf("--min-hold %v is negative", f.minHold)
	case f.minHold > maxTTL-decision.Drift(maxTTL):
		return fmt.Errorf("--min-hold %v is over %v, which is --max-ttl %v less drift (raise --max-ttl for all programs of these nodes alike)", f.minHold, maxTTL-decision.Drift(maxTTL), maxTTL)
	case f.maxHold > 0 && f.minHold > f.maxHold:
		return fmt.Errorf("--min-hold %v is over --max-hold %v", f.minHold, f.maxHold)
	case f.killAfter < 0:
		return fmt.Errorf("--kill-after %v is negative", f.killAfter)
	case f.killAfter > third:
		return fmt.Errorf("--kill-after %v is over a third of the TTL (%v): the command must be dead before another client can get the lock; raise --ttl", f.killAfter, third.Truncate(time.Millisecond))
	default:
		return nil
	}
}

func (f *runFlags) locks(client *quorumlock.Client) *quorumlock.Joined {
	options := quorumlock.LockOptions{Purpose: f.purpose, MinHold: f.minHold, MaxOutage: f.maxOutage}
	switch {
	case f.of > 0:
		return quorumlock.Join(client.Semaphore(f.keys[0], f.of).With(options).Joinable(f.permits))
	case f.multi:
		return quorumlock.Join(client.MultiLock(f.keys...).With(options))
	case f.read:
		return quorumlock.Join(client.RWLock(f.keys[0]).Read().With(options))
	}
	var all []quorumlock.Joinable
	for _, key := range f.keys {
		all = append(all, client.RedLock(key).With(options))
	}
	return quorumlock.Join(all...)
}
