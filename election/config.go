package election

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock"
)

// Config describes a candidate. The zero value of a field means its default.
type Config struct {
	// Name presents this candidate in logs and to observers: by a name, by the address at which it serves as the
	// leader, or both. It becomes the purpose of the lock, so it must be printable, with at most
	// quorumlock.MaxPurposeLength bytes. Default: the Purpose of Lock, or else the client's Config.Holder, which is its
	// host and process by default.
	Name string
	// Lock has the options of the lock. Its TTL bounds the time without a leader after a leader has died. MaxHold
	// ends a term in any case, without waiting for the lead function, so its end counts as a loss. The lock cannot be
	// Fixed, and is never handed over within a client. All candidates should have the same options.
	Lock quorumlock.LockOptions
	// RestMin and RestMax bound the pause of the candidate after a lead function has returned without a loss, which
	// lets others lead. They also bound the pause after the candidate could not stand. The pause grows from RestMin to
	// RestMax while lead functions return errors before their context ends, or the candidate cannot stand. Jitter takes
	// off up to half of it. Defaults: 1 s and 30 s.
	RestMin, RestMax time.Duration
	// Grace is the time that a lead function may continue after its context has ended before Overdue reports it.
	// Default: 1 s.
	Grace time.Duration
	// Interval is the polling interval of Watch. Default: 1 s.
	Interval time.Duration
	// KeepOnCancel makes Run keep the lock when its context ends: it is left to its TTL, so that no other candidate leads
	// before that. Use it where work that the lead function began may go on after its return. Default: Run releases the
	// lock, and another candidate leads at once. A lead function that returns ErrDone releases the lock in any case.
	KeepOnCancel bool

	// Logger gets an Info line when this candidate is elected, and when its term ends. It gets a warning when the
	// candidate cannot stand, or a lead function is overdue. Default: slog.Default().
	Logger *slog.Logger
	// Hooks receive the events of this candidate.
	Hooks Hooks
}

// Hooks receive the events of a candidate. Every function may be nil. Run calls them on its goroutine, and waits for
// them. Overdue is called on a goroutine of its own, and the end of the term waits for it.
type Hooks struct {
	// Elected: the lead function is about to be called.
	Elected func(Term)
	// Ended: the lead function has returned, or panicked. The lock is released after this.
	Ended func(EndedEvent)
	// Overdue: the context of the lead function ended Config.Grace ago, and the function has not returned. If the
	// term was lost, another candidate may lead already. Otherwise no candidate can lead. A program for which either
	// is worse than a restart should exit here.
	Overdue func(OverdueEvent)
	// Failed: this candidate cannot stand now, because too many nodes refuse it for a reason that waiting does not
	// solve. It tries again later.
	Failed func(error)
}

// EndedEvent describes the end of a term.
type EndedEvent struct {
	Term Term
	// Held is how long the term lasted, until the lead function returned.
	Held time.Duration
	// Cause is why the context of the lead function ended: a *quorumlock.LostError or another end of its lease,
	// ErrResigned, or the cause of Run's context. It is nil if the function returned first.
	Cause error
	// Err is the function's result, or ErrPanicked.
	Err error
}

// OverdueEvent describes a lead function that continues after the end of its context.
type OverdueEvent struct {
	Term Term
	// Cause is as in EndedEvent.
	Cause error
}

func (c Config) withDefaults() Config {
	c.Lock.Purpose = cmp.Or(c.Name, c.Lock.Purpose)
	c.RestMin = cmp.Or(c.RestMin, min(time.Second, cmp.Or(c.RestMax, time.Second)))
	c.RestMax = cmp.Or(c.RestMax, max(30*time.Second, c.RestMin))
	c.Grace = cmp.Or(c.Grace, time.Second)
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Lock.NoHandover = true // Otherwise, one owner could have several terms.
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// problems lists the errors of a Config with its defaults filled in. The lock reports its own errors.
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
	add(len(c.Name) > quorumlock.MaxPurposeLength, "Name has %d bytes, more than %d", len(c.Name), quorumlock.MaxPurposeLength)
	add(!isPrintable(c.Name), "Name %q has unprintable characters", c.Name)
	add(c.Grace < 0, "Grace %v is negative", c.Grace)
	add(c.Interval < 0, "Interval %v is negative", c.Interval)
	return p
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
