package election

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// The defaults of a [Config].
const (
	DefaultRestMin  = time.Second
	DefaultRestMax  = 30 * time.Second
	DefaultGrace    = time.Second
	DefaultInterval = time.Second
)

// Config describes a candidate. The zero value of each field means its default.
type Config struct {
	// Name tells this candidate from others, in logs and to observers: it is the purpose of the lock, so
	// it is printable, and has quorumlock.MaxPurposeLength bytes at most. Default: what the client's
	// Config.Holder says, host and process.
	Name string
	// Lock has the options of the lock: its TTL bounds how long nobody leads after a leader has
	// died. MaxHold ends a term however well it goes, and without waiting for the lead function,
	// so it is a loss. It cannot be Fixed, and is never handed over within a client.
	// All candidates should have the same.
	Lock quorumlock.LockOptions
	// RestMin and RestMax bound how long the candidate lets others have their turn, after
	// a lead function that has returned although the term was not lost, and how long it
	// waits after it could not stand at all. It grows from one to the other while lead functions return
	// errors, with jitter. Defaults: 1 s and 30 s.
	RestMin, RestMax time.Duration
	// Grace is how long a lead function may go on after its context has ended until that is
	// reported. Default: 1 s.
	Grace time.Duration
	// Interval is how often Watch looks. Default: 1 s.
	Interval time.Duration

	// Clock is the source of time, that of the client. Default: clock.System().
	Clock clock.Clock
	// Logger gets a line at level Info when this candidate is elected and when its term ends, and a
	// warning when it cannot stand or a lead function is overdue. Default: slog.Default().
	Logger *slog.Logger
	// Hooks are told what happens.
	Hooks Hooks
}

// Hooks are told what happens to a candidate. Every function may be nil. They are called on the
// goroutine of Run, which waits for them, and Overdue on one of its own, for which the end of the term
// waits.
type Hooks struct {
	// Elected: the lead function is about to be called.
	Elected func(Term)
	// Ended: the lead function has returned, or panicked. The lock is released after this.
	Ended func(EndedEvent)
	// Overdue: the context of the lead function ended Config.Grace ago, and it has not returned.
	// If the term was lost, another may lead already; if it was not, nobody can. A
	// program in which either is worse than a restart ends itself here.
	Overdue func(OverdueEvent)
	// Failed: this candidate cannot stand now, and tries again later: too many nodes refuse it for
	// a reason that waiting does not cure.
	Failed func(error)
}

// EndedEvent describes the end of a term.
type EndedEvent struct {
	Term Term
	// Held is how long the term lasted, until the lead function returned.
	Held time.Duration
	// Cause is why the context of the lead function ended: a *quorumlock.LostError or another
	// end of its lease, ErrResigned, or the cause of Run's context. It is nil if the function
	// returned before.
	Cause error
	// Err is what the function returned, or ErrPanicked.
	Err error
}

// OverdueEvent describes a lead function that goes on after the end of its context.
type OverdueEvent struct {
	Term Term
	// Cause is as in EndedEvent.
	Cause error
}

func (c Config) withDefaults() Config {
	c.Lock.Purpose = cmp.Or(c.Name, c.Lock.Purpose)
	c.RestMin = cmp.Or(c.RestMin, min(DefaultRestMin, cmp.Or(c.RestMax, DefaultRestMin)))
	c.RestMax = cmp.Or(c.RestMax, max(DefaultRestMax, c.RestMin))
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Lock.NoHandover = true // else one owner could stand for several terms
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// problems lists what is wrong with a Config whose defaults are filled in; what is wrong with the
// lock, it says itself.
func (c Config) problems() []string {
	var p []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			p = append(p, fmt.Sprintf(format, args...))
		}
	}
	add(c.Lock.Fixed, "the lock of an election cannot be Fixed: its leader would lead for one TTL")
	add(c.RestMin < 0, "RestMin %v is negative", c.RestMin)
	add(c.RestMax < 0, "RestMax %v is negative", c.RestMax)
	add(c.RestMin > c.RestMax, "RestMin %v is over RestMax %v", c.RestMin, c.RestMax)
	add(c.Grace < 0, "Grace %v is negative", c.Grace)
	add(c.Interval < 0, "Interval %v is negative", c.Interval)
	return p
}
