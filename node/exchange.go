package node

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// exchange sends the operations in one pipelined write and reads the answers. It
// returns an error if the connection cannot be used any more.
//
// A script that the server does not have is sent in full, together with everything
// that stands behind it in the batch: all commands are idempotent, and only so does a
// release that the server knew already still run after a renewal that it did not.
func exchange(ctx context.Context, node string, l *link, ops []Op, replies []Reply) error {
	results := send(ctx, l, ops, evalsha)
	unknown := firstUnknownScript(results)
	for i, result := range results {
		replies[i] = decode(ops[i], result)
	}
	if unknown >= 0 {
		repeat(ops[unknown:], send(ctx, l, ops[unknown:], eval), replies[unknown:])
	}
	var broken error
	for i := range replies {
		err := replies[i].Err
		if err == nil {
			continue
		}
		reason := reasonOf(err)
		replies[i].Err = newError(node, ops[i].Kind, reason, err)
		if endsConnection(reason, err) {
			broken = err
		}
	}
	return broken
}

// repeat decodes the answers to operations that may have run before. What was released
// or put back then counts as that, though it was not again; a token that was taken then is
// not one that the node knew already; and a node that was opened then was not open before.
func repeat(ops []Op, results []rueidis.RedisResult, replies []Reply) {
	for i, result := range results {
		before := replies[i]
		replies[i] = decode(ops[i], result)
		switch after := replies[i].Outcome; {
		case before.Outcome == Released && after == Absent,
			before.Outcome == Healed && after == Granted,
			before.Outcome == Granted && after == Granted,
			before.Outcome == Granted && after == Denied && ops[i].Kind == Open:
			replies[i] = before
		}
	}
}

// send runs one command for each operation.
func send(ctx context.Context, l *link, ops []Op, build func(rueidis.Builder, *numerals, Op) rueidis.Completed) []rueidis.RedisResult {
	b, n := l.client.B(), &l.numerals
	n.begin(len(ops))
	if len(ops) == 1 {
		return l.call(ctx, build(b, n, ops[0]))
	}
	cmds := make([]rueidis.Completed, len(ops))
	for i, op := range ops {
		cmds[i] = build(b, n, op)
	}
	return l.call(ctx, cmds...)
}

func evalsha(b rueidis.Builder, n *numerals, op Op) rueidis.Completed {
	return command(b, n, "EVALSHA", scripts[op.Kind].sha, op)
}

func eval(b rueidis.Builder, n *numerals, op Op) rueidis.Completed {
	return command(b, n, "EVAL", scripts[op.Kind].source, op)
}

// command has the KEYS and ARGV that the header of the operation's script names.
func command(b rueidis.Builder, n *numerals, verb, script string, op Op) rueidis.Completed {
	c := b.Arbitrary(verb, script, strconv.Itoa(len(op.Names))).Keys(op.Names...)
	switch op.Kind {
	case Acquire:
		token := n.unsigned(op.Token)
		end := token
		if op.Reserve > 0 {
			end = n.unsigned(op.end())
		}
		c = c.Args(op.Owner, milliseconds(op.TTL), milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew), token, end)
		switch {
		case op.Waiter.ID != "":
			c = c.Args(op.Waiter.ID, n.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
		case op.Fair:
			c = c.Args("", "0", "0")
		}
		if op.Fair {
			c = c.Args("1")
		}
	case Renew:
		c = c.Args(op.Owner, milliseconds(op.TTL), milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew), n.unsigned(op.Token))
	case Release:
		c = c.Args(op.Owner, flag(op.Announce))
		if op.Waiter.ID != "" {
			c = c.Args(op.Waiter.ID)
		}
		if op.Waiter.ID != "" && op.Waiter.Keep > 0 {
			c = c.Args(n.signed(op.Waiter.Ticket), milliseconds(op.Waiter.Keep))
		}
	case Leave:
		c = c.Args(op.Waiter.ID)
	case ForceRelease:
		c = c.Args(milliseconds(op.TTL), flag(op.Announce)).Args(op.Buried...)
	case Mark:
		c = c.Args(milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew))
	case Open:
		c = c.Args(milliseconds(op.Limits.MaxTTL), milliseconds(op.Limits.MaxClockSkew),
			op.Marker.Identity, n.signed(op.Marker.Until))
	}
	return c.Build()
}

// flag writes a truth for a script.
func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// firstUnknownScript is the index of the first NOSCRIPT answer, or -1.
func firstUnknownScript(results []rueidis.RedisResult) int {
	for i, result := range results {
		if err, ok := rueidis.IsRedisErr(result.Error()); ok && err.IsNoScript() {
			return i
		}
	}
	return -1
}

// reasonOf classifies what rueidis or the server said.
func reasonOf(err error) error {
	var netErr net.Error
	var reply replyError
	if reason := reasonOfRefusal(err); reason != nil {
		return reason
	}
	switch {
	case errors.Is(err, errUnfit):
		return ErrMisconfigured
	case errors.Is(err, errReplica):
		return ErrRejected
	case errors.Is(err, errGarbled), rueidis.IsRedisNil(err): // no script of ours answers nil
		return ErrProtocol
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return ErrTimeout
	case errors.As(err, &reply):
		return reasonOfReply(string(reply))
	}
	if redisErr, ok := rueidis.IsRedisErr(err); ok {
		return reasonOfReply(redisErr.Error())
	}
	if rueidis.IsRedisNil(err) || rueidis.IsParseErr(err) || strings.HasPrefix(err.Error(), "received un") {
		return ErrProtocol // the last are "received unknown", "received unexpected"
	}
	return ErrUnreachable
}

// reasonOfReply classifies an error reply by its first word, as Redis means it to be.
func reasonOfReply(text string) error {
	word, _, _ := strings.Cut(text, " ")
	switch {
	case word == "WRONGPASS", word == "NOAUTH", word == "NOPERM",
		strings.Contains(text, "The user executing the script can't"),
		strings.Contains(text, "without any password configured"):
		return ErrAuth
	case word == "WRONGTYPE", strings.Contains(text, "WRONGTYPE"):
		return ErrWrongType
	case word == "DENIED", strings.Contains(text, "DB index is out of range"), strings.Contains(text, "unknown command"),
		strings.Contains(text, "Unknown Redis command"), strings.Contains(text, "No such master"):
		return ErrMisconfigured
	default:
		return ErrRejected
	}
}

// endsConnection reports whether the connection must be given up after an error: all
// errors but those of a healthy server, and of those the ones of a replica, as the master
// may be elsewhere by now.
func endsConnection(reason, err error) bool {
	switch reason {
	case ErrWrongType, ErrAuth, ErrMisconfigured, ErrRecovering, ErrSettings, ErrClock: //nolint:errorlint // a reason is never wrapped
		return false
	case ErrRejected:
		return strings.Contains(err.Error(), "READONLY") || strings.HasPrefix(err.Error(), "MASTERDOWN")
	default:
		return true
	}
}
