package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/rights"
)

// tryRights tests the user's rights. It tries commands in a way that has no effect.
func (e *examiner) tryRights(ctx context.Context, names []string) {
	shown := make(map[string]bool) // the patterns of keys and channels on which there is a verdict
	for _, group := range []rights.Group{rights.Locks(), rights.Order(), rights.Waiting(), rights.Latches()} {
		for _, rule := range group.Rules {
			if p, ok := probes[rule]; ok {
				verdict, err := e.try(ctx, p)
				e.note(rule, group.For, verdict, err)
				if verdict == Permitted || verdict == Denied && !aboutCommand(err.Error()) {
					shown[p.pattern()] = true
				}
			}
		}
	}
	if !shown[rights.Keys] {
		e.tryKey(ctx, rights.Keys, absentKey)
	}
	if !shown[rights.Inboxes] {
		e.note(rights.Inboxes, rights.ForWaiting, Untried, errHidden)
	}
	for _, name := range names {
		verdict, err := e.try(ctx, probe{args: []string{nameCommand, name, "f", "v", "f"}, writes: true})
		if verdict != Untried {
			e.note("~"+name, rights.ForLocks, verdict, err)
		}
		if verdict == Untried || verdict == Denied && aboutCommand(err.Error()) {
			e.tryKey(ctx, "~"+name, name)
		}
	}
}

// errHidden is for a right that only other rights could show.
var errHidden = errors.New("no command that shows it is allowed to the user")

// tryKey tests the right to a key by a script that does nothing with it. It is for a user who may not run the
// commands that do.
func (e *examiner) tryKey(ctx context.Context, rule, key string) {
	verdict, err := e.try(ctx, probe{args: []string{"EVAL", "return 1", "1", key}})
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

// probe is a command that needs a right but has no effect: it only reads, or is invalid, or uses a key that does not
// exist. The server checks commands that write, but does not run them.
type probe struct {
	args   []string
	writes bool
}

// pattern returns the rule for the key or the channel that the command needs, or "".
func (p probe) pattern() string {
	switch {
	case slices.Contains(p.args, absentKey):
		return rights.Keys
	case slices.Contains(p.args, inbox):
		return rights.Inboxes
	default:
		return ""
	}
}

// absentClient is the id of a client that does not exist.
var absentClient = strconv.FormatInt(math.MaxInt64, 10)

// probes are the commands of each rule, except for rules that nothing depends on.
var probes = map[string]probe{
	"+ping":        {[]string{"PING"}, false},
	"+info":        {[]string{"INFO", "replication"}, false},
	"+time":        {[]string{"TIME"}, false},
	"+eval":        {[]string{"EVAL", "return 1", "0"}, false},
	"+evalsha":     {[]string{"EVALSHA", strings.Repeat("0", 40), "0"}, false},
	"+getrange":    {[]string{"GETRANGE", absentKey, "0", "0"}, false},
	"+exists":      {[]string{"EXISTS", absentKey}, false},
	"+pttl":        {[]string{"PTTL", absentKey}, false},
	"+hget":        {[]string{"HGET", absentKey, "f"}, false},
	"+hmget":       {[]string{"HMGET", absentKey, "f"}, false},
	"+hkeys":       {[]string{"HKEYS", absentKey}, false},
	"+zrange":      {[]string{"ZRANGE", absentKey, "0", "-1"}, false},
	"+zrank":       {[]string{"ZRANK", absentKey, "m"}, false},
	"+zscore":      {[]string{"ZSCORE", absentKey, "m"}, false},
	"+zcard":       {[]string{"ZCARD", absentKey}, false},
	"+client|info": {[]string{"CLIENT", "INFO"}, false},
	"+client|kill": {[]string{"CLIENT", "KILL", "ID", absentClient}, false},
	"+subscribe":   {[]string{"SUBSCRIBE", inbox}, false},
	"+del":         {[]string{"DEL", absentKey}, true},
	"+set":         {[]string{"SET", absentKey, "v", "XX"}, true},
	"+setrange":    {[]string{"SETRANGE", absentKey, "0", ""}, true},
	"+pexpire":     {[]string{"PEXPIRE", absentKey, "1"}, true},
	"+hset":        {[]string{"HSET", absentKey, "f", "v", "f"}, true},
	"+hdel":        {[]string{"HDEL", absentKey, "f"}, true},
	"+zadd":        {[]string{"ZADD", absentKey, "XX", "1", "m"}, true},
	"+zrem":        {[]string{"ZREM", absentKey, "m"}, true},
	"+publish":     {[]string{"PUBLISH", inbox, ""}, true},
}

// try tests a right by running a command, or by making the server refuse it.
func (e *examiner) try(ctx context.Context, p probe) (Verdict, error) {
	switch {
	case p.writes:
		return writeVerdict(e.run(ctx, append([]string{"EVAL", readOnly, "0"}, p.args...)...))
	case p.args[0] == "SUBSCRIBE":
		return e.trySubscribe(ctx)
	default:
		return verdictOf(e.run(ctx, p.args...))
	}
}

// readOnly is a script in which the server, from Redis 7 on, runs no command that writes. The server checks the
// rights first.
const readOnly = "#!lua flags=no-writes\nreturn redis.pcall(unpack(ARGV))"

// errUnproven is for a server that does not know such scripts.
var errUnproven = errors.New("it cannot be tried without a write on this server (Redis 7)")

// writeVerdict interprets the answer to such a script. A server that ran the write does not know such scripts; the
// write then had no effect.
func writeVerdict(err error) (Verdict, error) {
	if err == nil {
		return Untried, errUnproven
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "not allowed from read-only scripts"):
		return Permitted, nil
	case strings.HasPrefix(text, "NOPERM") && !strings.Contains(text, "ACL failure in script"), strings.HasPrefix(text, "unknown command"):
		return Untried, err // it is about the script, and not about the command in it
	}
	if verdict, err := verdictOf(err); verdict == Denied || verdict == Missing {
		return verdict, err
	}
	return Untried, errUnproven
}

// trySubscribe subscribes to an inbox on a connection of its own, and closes that. It does not unsubscribe, which
// needs a right of its own.
func (e *examiner) trySubscribe(ctx context.Context) (Verdict, error) {
	if e.lost != nil {
		return Untried, e.lost
	}
	client, err := e.peer.Dial()
	if err != nil {
		return Untried, err
	}
	ctx, done := context.WithTimeout(ctx, e.peer.Options.Timeout)
	var subscribed atomic.Bool
	var closing sync.WaitGroup
	closing.Go(func() {
		<-ctx.Done()
		client.Close()
	})
	hooked := rueidis.WithOnSubscriptionHook(context.WithoutCancel(ctx), func(rueidis.PubSubSubscription) {
		subscribed.Store(true)
		done()
	})
	err = client.Receive(hooked, client.B().Subscribe().Channel(inbox).Build(), func(rueidis.PubSubMessage) {})
	done()
	closing.Wait()
	if subscribed.Load() {
		return Permitted, nil
	}
	return verdictOf(err)
}

// verdictOf interprets a server's answer to a harmless command.
func verdictOf(err error) (Verdict, error) {
	if err == nil || rueidis.IsRedisNil(err) {
		return Permitted, nil
	}
	text := err.Error()
	code, _, _ := strings.Cut(text, " ")
	switch {
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "user executing the script can't"), strings.Contains(text, "ACL failure in script"):
		return Denied, err
	case strings.Contains(text, "unknown command"), strings.Contains(text, "Unknown Redis command"), strings.Contains(text, "Unknown command"):
		return Missing, err
	case isReply(err) && slices.Contains(passing, code):
		return Untried, fmt.Errorf("the server cannot tell in its present state: %w", err)
	case isReply(err):
		return Permitted, nil // the server parsed it and found it invalid
	default:
		return Untried, err
	}
}

// passing are the codes of answers that are about the state of the server, and not about the command.
var passing = []string{"LOADING", "BUSY", "MASTERDOWN", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "CLUSTERDOWN", "MOVED", "TRYAGAIN"}
