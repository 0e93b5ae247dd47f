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
	"github.com/quorumlock/quorumlock/internal/watch"
)

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

// absentKey is a key that does not exist, inbox an inbox without messages.
const (
	absentKey = "quorumlock:doctor"
	inbox     = "quorumlock:inbox:doctor"
)

// absentClient is the id of a client that does not exist.
var absentClient = strconv.FormatInt(math.MaxInt64, 10)

// probes are the commands of each rule, except for rules that nothing depends on.
var probes = map[string]probe{
	"+ping":        {args: []string{"PING"}},
	"+info":        {args: []string{"INFO", "replication"}},
	"+time":        {args: []string{"TIME"}},
	"+eval":        {args: []string{"EVAL", "return 1", "0"}},
	"+evalsha":     {args: []string{"EVALSHA", strings.Repeat("0", 40), "0"}},
	"+getrange":    {args: []string{"GETRANGE", absentKey, "0", "0"}},
	"+exists":      {args: []string{"EXISTS", absentKey}},
	"+pttl":        {args: []string{"PTTL", absentKey}},
	"+hget":        {args: []string{"HGET", absentKey, "f"}},
	"+hmget":       {args: []string{"HMGET", absentKey, "f"}},
	"+hkeys":       {args: []string{"HKEYS", absentKey}},
	"+zrange":      {args: []string{"ZRANGE", absentKey, "0", "-1"}},
	"+zrank":       {args: []string{"ZRANK", absentKey, "m"}},
	"+zscore":      {args: []string{"ZSCORE", absentKey, "m"}},
	"+zcard":       {args: []string{"ZCARD", absentKey}},
	"+client|info": {args: []string{"CLIENT", "INFO"}},
	"+client|kill": {args: []string{"CLIENT", "KILL", "ID", absentClient}},
	"+subscribe":   {args: []string{"SUBSCRIBE", inbox}},
	"+del":         {args: []string{"DEL", absentKey}, writes: true},
	"+set":         {args: []string{"SET", absentKey, "v", "XX"}, writes: true},
	"+setrange":    {args: []string{"SETRANGE", absentKey, "0", ""}, writes: true},
	"+pexpire":     {args: []string{"PEXPIRE", absentKey, "1"}, writes: true},
	"+hset":        {args: []string{"HSET", absentKey, "f", "v", "f"}, writes: true},
	"+hdel":        {args: []string{"HDEL", absentKey, "f"}, writes: true},
	"+zadd":        {args: []string{"ZADD", absentKey, "XX", "1", "m"}, writes: true},
	"+zrem":        {args: []string{"ZREM", absentKey, "m"}, writes: true},
	"+publish":     {args: []string{"PUBLISH", inbox, ""}, writes: true},
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
var errUnproven = errors.New("it cannot be tried without a write, and the user may not run ACL DRYRUN (Redis 7)")

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
	client, err := watch.Connect(e.opt, "quorumlock-doctor")
	if err != nil {
		return Untried, err
	}
	ctx, done := context.WithTimeout(ctx, e.opt.ConnWriteTimeout)
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

// isReply reports whether an error is a server's answer.
func isReply(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}
