package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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
// then counts as released, though it was not found again.
func repeat(ops []Op, results []rueidis.RedisResult, replies []Reply) {
	for i, result := range results {
		before := replies[i]
		replies[i] = decode(ops[i], result)
		if replies[i].Outcome == Absent && before.Outcome == Released {
			replies[i] = before
		}
	}
}

// send runs one command for each operation.
func send(ctx context.Context, l *link, ops []Op, build func(rueidis.Builder, Op) rueidis.Completed) []rueidis.RedisResult {
	b := l.client.B()
	if len(ops) == 1 {
		return l.call(ctx, build(b, ops[0]))
	}
	cmds := make([]rueidis.Completed, len(ops))
	for i, op := range ops {
		cmds[i] = build(b, op)
	}
	return l.call(ctx, cmds...)
}

func evalsha(b rueidis.Builder, op Op) rueidis.Completed {
	return command(b, "EVALSHA", scripts[op.Kind].sha, op)
}

func eval(b rueidis.Builder, op Op) rueidis.Completed {
	return command(b, "EVAL", scripts[op.Kind].source, op)
}

// command has the KEYS and ARGV that the header of the operation's script names.
func command(b rueidis.Builder, verb, script string, op Op) rueidis.Completed {
	c := b.Arbitrary(verb, script, strconv.Itoa(len(op.Names))).Keys(op.Names...)
	switch op.Kind {
	case Acquire, Renew:
		c = c.Args(op.Owner, milliseconds(op.TTL))
	case Release:
		c = c.Args(op.Owner)
	case ForceRelease:
		c = c.Args(milliseconds(op.TTL)).Args(op.Buried...)
	}
	return c.Build()
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds(), 10)
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

// decode reads an answer as the header of its script describes it.
func decode(op Op, result rueidis.RedisResult) Reply {
	msg, err := result.ToMessage()
	if err != nil {
		return Reply{Err: err}
	}
	switch op.Kind {
	case Acquire, Renew:
		return decodeGrant(op, msg)
	case Release:
		return decodeCount(op, msg)
	default:
		holders, err := decodeHolders(op, msg)
		if err != nil {
			return garbled(err)
		}
		return Reply{Outcome: foundOutcome(op.Kind, len(holders)), Holders: holders}
	}
}

func decodeGrant(op Op, msg rueidis.RedisMessage) Reply {
	if msg.IsInt64() {
		switch n, _ := msg.AsInt64(); {
		case n == 1:
			return Reply{Outcome: Granted}
		case n == 2 && op.Kind == Renew:
			return Reply{Outcome: Healed}
		}
	}
	holders, err := decodeHolders(op, msg)
	if err != nil || len(holders) != 1 {
		return garbled(err)
	}
	return Reply{Outcome: Denied, Holder: holders[0]}
}

func decodeCount(op Op, msg rueidis.RedisMessage) Reply {
	n, err := msg.AsInt64()
	switch {
	case err != nil || !msg.IsInt64() || n < 0 || n > int64(len(op.Names)):
		return garbled(err)
	case n == 0:
		return Reply{Outcome: Absent}
	default:
		return Reply{Outcome: Released}
	}
}

// decodeHolders reads {name, owner, pttl, ...}, where the names are some of the
// operation's, in their order.
func decodeHolders(op Op, msg rueidis.RedisMessage) ([]Holder, error) {
	values, err := msg.ToArray()
	if err != nil {
		return nil, err
	}
	if len(values)%3 != 0 {
		return nil, fmt.Errorf("%d values where triples were due", len(values))
	}
	holders := make([]Holder, 0, len(values)/3)
	for names := op.Names; len(values) > 0; values = values[3:] {
		name, err1 := values[0].ToString()
		owner, err2 := values[1].ToString()
		pttl, err3 := values[2].AsInt64()
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		i := slices.Index(names, name)
		if i < 0 {
			return nil, errors.New("an answer about another name")
		}
		names = names[i+1:]
		holders = append(holders, Holder{Name: name, Owner: owner, TTL: leftOf(pttl)})
	}
	return holders, nil
}

// leftOf turns a PTTL into a duration. -2, a key that has just gone, is nothing left.
func leftOf(pttl int64) time.Duration {
	if pttl == -1 {
		return NoExpiry
	}
	return time.Duration(max(pttl, 0)) * time.Millisecond
}

func foundOutcome(kind Kind, found int) Outcome {
	switch {
	case kind == Inspect:
		return Inspected
	case found == 0:
		return Absent
	default:
		return Released
	}
}

// errGarbled marks an answer that came through, and that no script of ours gives.
var errGarbled = errors.New("unexpected reply")

func garbled(err error) Reply {
	return Reply{Err: errors.Join(errGarbled, err)}
}

// reasonOf classifies what rueidis or the server said.
func reasonOf(err error) error {
	var netErr net.Error
	var reply replyError
	switch {
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
		strings.Contains(text, "No such master"):
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
	case ErrWrongType, ErrAuth, ErrMisconfigured: //nolint:errorlint // a reason is never wrapped
		return false
	case ErrRejected:
		return strings.Contains(err.Error(), "READONLY") || strings.HasPrefix(err.Error(), "MASTERDOWN")
	default:
		return true
	}
}
