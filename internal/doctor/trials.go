package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/quorumlock/quorumlock/internal/rights"
)

// Trial is a right, and whether the user has it.
type Trial struct {
	// Rule is the ACL rule that grants the right.
	Rule string
	// For is the purpose of the right.
	For string
	// Verdict is the result.
	Verdict Verdict
	// Err is the server's error, unless the user has the right.
	Err error
}

// Verdict is the result of testing a right.
type Verdict int

// The verdicts.
const (
	Untried Verdict = iota
	Permitted
	Denied
	// Missing is for a command that the server does not know: the server is older, or the command was renamed.
	Missing
)

// tryRights tests the user's rights. If the user may ask the server directly (ACL DRYRUN, from Redis 7), it does.
// Otherwise it tries the commands.
func (e *examiner) tryRights(ctx context.Context, names []string) {
	try := e.try
	if e.run(ctx, "ACL", "DRYRUN", e.User, "PING") == nil {
		try = e.dryRun
	}
	shown := make(map[string]bool) // the patterns of keys and channels on which there is a verdict
	for _, group := range []rights.Group{rights.Locks(), rights.Order(), rights.Waiting(), rights.Latches()} {
		for _, rule := range group.Rules {
			if p, ok := probes[rule]; ok {
				verdict, err := try(ctx, p)
				e.note(rule, group.For, verdict, err)
				if verdict == Permitted || verdict == Denied && !aboutCommand(err.Error()) {
					shown[p.pattern()] = true
				}
			}
		}
	}
	if !shown[rights.Keys] {
		e.tryKey(ctx, try, rights.Keys, absentKey)
	}
	if !shown[rights.Inboxes] {
		e.note(rights.Inboxes, rights.ForWaiting, Untried, errHidden)
	}
	for _, name := range names {
		verdict, err := try(ctx, probe{args: []string{nameCommand, name, "f", "v", "f"}, writes: true})
		if verdict != Untried {
			e.note("~"+name, rights.ForLocks, verdict, err)
		}
		if verdict == Untried || verdict == Denied && aboutCommand(err.Error()) {
			e.tryKey(ctx, try, "~"+name, name)
		}
	}
}

// errHidden is for a right that only other rights could show.
var errHidden = errors.New("no command that shows it is allowed to the user")

// tryKey tests the right to a key by a script that does nothing with it. It is for a user who may not run the
// commands that do.
func (e *examiner) tryKey(ctx context.Context, try func(context.Context, probe) (Verdict, error), rule, key string) {
	verdict, err := try(ctx, probe{args: []string{"EVAL", "return 1", "1", key}})
	if verdict == Missing || verdict == Denied && aboutCommand(err.Error()) {
		verdict, err = Untried, errHidden
	}
	e.note(rule, rights.ForLocks, verdict, err)
}

// nameCommand is run to test a name, and nameRule permits it.
const (
	nameCommand = "HSET"
	nameRule    = "+hset"
)

// note records a result. A denial can be about the key or the channel instead of the command.
func (e *examiner) note(rule, purpose string, verdict Verdict, err error) {
	about := rule
	switch {
	case verdict == Denied:
		about = deniedRule(rule, err.Error())
	case verdict == Missing && strings.HasPrefix(rule, "~"):
		about = nameRule
	}
	e.Trials = append(e.Trials, Trial{Rule: about, For: purpose, Verdict: verdict, Err: err})
}

// deniedRule returns the missing rule, from the text of a denial.
func deniedRule(rule, text string) string {
	switch {
	case strings.HasPrefix(rule, "~") && !aboutCommand(text):
		return rule
	case strings.HasPrefix(rule, "~"):
		return nameRule
	case aboutCommand(text):
		return rule
	case rule == "+publish" || rule == "+subscribe":
		return rights.Inboxes
	default:
		return rights.Keys
	}
}

// aboutCommand reports whether a denial is about the command, and not about its arguments.
func aboutCommand(text string) bool {
	return strings.Contains(text, "can't run this") || strings.Contains(text, "permissions to run")
}

// dryRun asks whether the user may run a command.
func (e *examiner) dryRun(ctx context.Context, p probe) (Verdict, error) {
	answer, err := e.ask(ctx, append([]string{"ACL", "DRYRUN", e.User}, p.args...)...)
	said, _ := answer.ToString() // empty if there is no answer
	switch {
	case err != nil && strings.Contains(err.Error(), "not found"):
		return Missing, err
	case err != nil:
		return Untried, err
	case said == "OK":
		return Permitted, nil
	default:
		return Denied, errors.New(said)
	}
}
