package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// decodeAll decodes the reply to the operations of one command.
func (w *writer) decodeAll(ops []wire.Op, result rueidis.RedisResult, replies []wire.Reply) {
	msg, err := result.ToMessage()
	if err != nil {
		failCommand(replies, err)
		return
	}
	w.decodeMessage(ops, msg, replies)
}

// failCommand sets the replies to the operations of a command that has failed. If the server refused it for one key, each
// operation is asked for alone.
func failCommand(replies []wire.Reply, err error) {
	if len(replies) > 1 && (wire.RefusesCommand(err) || lacksKey(err)) {
		err = errApart
	}
	for i := range replies {
		replies[i] = wire.Reply{Err: err}
	}
}

// decodeMessage is decodeAll for a message.
func (w *writer) decodeMessage(ops []wire.Op, msg rueidis.RedisMessage, replies []wire.Reply) {
	err := msg.Error()
	switch {
	case err != nil:
	case len(ops) == 1:
		replies[0] = decode(&ops[0], &msg)
		return
	default:
		err = w.decodeMany(ops, &msg, replies)
	}
	if err != nil {
		failCommand(replies, err)
	}
}

// decodeMany decodes the reply of the script many: one item for each operation, or one text if all are
// digits. One more item says that the queues need not be declared any more.
func (w *writer) decodeMany(ops []wire.Op, msg *rueidis.RedisMessage, replies []wire.Reply) error {
	if msg.IsString() {
		digits, err := msg.ToString()
		digits, none := strings.CutSuffix(digits, noQueues)
		w.queued = w.queued && !none
		if err != nil || len(digits) != len(ops) {
			return malformed(err)
		}
		for i := range ops {
			replies[i] = decodeDigit(&ops[i], digits[i])
		}
		return nil
	}
	if needsKeys(msg) {
		w.queued = true
		return errQueues
	}
	answers, err := msg.ToArray()
	if n := len(ops); len(answers) == n+1 {
		if last, _ := answers[n].ToString(); last == noQueues {
			answers, w.queued = answers[:n], false
		}
	}
	if err != nil || len(answers) != len(ops) {
		return malformed(err)
	}
	for i := range ops {
		if err := answers[i].Error(); err != nil {
			replies[i] = wire.Reply{Err: err}
		} else if digit, err := answers[i].ToString(); err == nil && len(digit) == 1 {
			replies[i] = decodeDigit(&ops[i], digit[0])
		} else {
			replies[i] = decode(&ops[i], &answers[i])
		}
	}
	return nil
}

// noQueues ends the reply to a batch that declares queues, on a node that has none.
const noQueues = "-"

// decodeDigit decodes a number that is written as a digit.
func decodeDigit(op *wire.Op, digit byte) wire.Reply {
	outcome := outcomeOf(op, int64(digit)-'0')
	if outcome == wire.Unknown {
		return wire.Reply{Err: malformed(nil)}
	}
	return wire.Reply{Outcome: outcome}
}

// decode decodes a reply as the header of the operation's script describes it.
func decode(op *wire.Op, msg *rueidis.RedisMessage) wire.Reply {
	o := operationOf(op)
	var r wire.Reply
	var err error
	switch {
	case o.batchable && msg.IsInt64(): // the usual case
		r, err = decodeNumber(op, msg)
	case o.batchable && needsKeys(msg):
		return wire.Reply{Err: errKeys}
	default:
		reply := *msg // the call through a variable moves it to the heap
		r, err = o.decode(op, &reply)
	}
	if err != nil {
		return wire.Reply{Err: malformed(err)}
	}
	return r
}

// needsKeys reports whether a script asks for the keys that are rarely used.
func needsKeys(msg *rueidis.RedisMessage) bool {
	values, err := msg.ToArray()
	if err != nil || len(values) != 1 {
		return false
	}
	word, _ := values[0].ToString()
	return word == "KEYS"
}

// errProtocol marks a reply that arrived intact, but that no script of this package gives.
var errProtocol = errors.New("unexpected reply")

// errForm marks a reply of the right type with a wrong form.
var errForm = errors.New("wrong form")

// malformed returns the error for a reply that decode rejects, for the reason err. A nil err stands for errForm.
func malformed(err error) error { return fmt.Errorf("%w: %w", errProtocol, cmp.Or(err, errForm)) }

// decodeNumber decodes a reply that is one number.
func decodeNumber(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	n, err := msg.AsInt64()
	r := wire.Reply{Outcome: outcomeOf(op, n)}
	if err != nil || r.Outcome == wire.Unknown {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	r.Partial = (op.Kind == wire.Release || op.Kind == wire.Shorten) && r.Outcome == wire.Released && n < int64(len(op.Names))
	return r, nil
}

// outcomeOf returns the meaning of a reply that is one number; Unknown if no script gives that number.
func outcomeOf(op *wire.Op, n int64) wire.Outcome {
	removes := op.Kind == wire.Release || op.Kind == wire.Leave || op.Kind == wire.Shorten
	switch {
	case removes && n == 0:
		return wire.Absent
	case removes && n > 0 && n <= int64(len(op.Names)):
		return wire.Released
	case removes:
		return wire.Unknown
	case n == 1 && op.Kind != wire.Mark && (op.Kind != wire.Acquire || !op.Reads): // a reader gets the fence
		return wire.Granted
	case n == 2 && op.Kind == wire.Renew:
		return wire.Healed
	default:
		return wire.Unknown
	}
}

// decodeRemoval decodes the replies of the scripts that take rights away.
func decodeRemoval(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	if !msg.IsInt64() {
		return wire.Reply{}, errForm
	}
	return decodeNumber(op, msg)
}

// decodeRights decodes the replies of the scripts that give rights to a lock.
func decodeRights(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	width := 4
	if op.Kind == wire.Acquire && op.Waiter.ID != "" {
		width = 5 // with the rank of the waiter
	}
	return decodeGrant(op, msg, width, decodeDenial)
}

// decodeGrant decodes the replies of the scripts that give rights. The length of a reply tells its meaning, or the word at
// its beginning does. denied decodes a denial, which has width values.
func decodeGrant(op *wire.Op, msg *rueidis.RedisMessage, width int, denied func(*wire.Op, []rueidis.RedisMessage) (wire.Reply, error)) (wire.Reply, error) {
	if msg.IsInt64() {
		return decodeNumber(op, msg)
	}
	values, err := msg.ToArray()
	switch {
	case err != nil:
		return wire.Reply{}, err
	case len(values) == width:
		return denied(op, values)
	case len(values) == 1 && op.Kind == wire.Acquire:
		n, err := integers(values)
		if err != nil || n[0] <= 0 {
			return wire.Reply{}, errForm
		}
		return wire.Reply{Outcome: wire.Granted, Token: uint64(n[0])}, nil
	case len(values) > 1 && values[0].IsString():
		return decodeRefusal(op, values)
	case len(values) == 3 && op.Kind == wire.Renew:
		return decodeReassertion(op, values)
	default:
		return wire.Reply{}, errForm
	}
}

// decodeDenial decodes {name, owner, pttl, fence}, and the rank of a waiter.
func decodeDenial(op *wire.Op, values []rueidis.RedisMessage) (wire.Reply, error) {
	holders, err1 := decodeHolders(op, values[:4], 4)
	rank, err2 := integers(values[4:])
	if err := errors.Join(err1, err2); err != nil {
		return wire.Reply{}, err
	}
	r := wire.Reply{Outcome: wire.Denied, Holder: holders[0]}
	if len(rank) > 0 {
		r.Rank = int(max(rank[0], 0))
	}
	return r, nil
}

// decodeReassertion decodes {1 or 2, left, restarted}.
func decodeReassertion(op *wire.Op, values []rueidis.RedisMessage) (wire.Reply, error) {
	n, err := integers(values)
	if err != nil || n[1] <= 0 {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	r, err := decodeNumber(op, &values[0])
	r.Recovering, r.HadMarker = milli(n[1]), n[2] != 0
	return r, err
}

// decodeRefusal decodes the replies that begin with a word.
func decodeRefusal(op *wire.Op, values []rueidis.RedisMessage) (wire.Reply, error) {
	word, _ := values[0].ToString()
	n, err := integers(values[1:])
	switch {
	case err != nil:
		return wire.Reply{}, err
	case word == "RECOVERING" && (op.Kind == wire.Acquire || op.Kind == wire.Latch || op.Kind == wire.Once) && len(n) == 2 && n[0] > 0:
		return recoveringRefusal(milli(n[0]), op.Limits.Recovery(), n[1] != 0), nil
	case word == "SETTINGS" && len(n) == 2:
		return wire.Reply{Err: &SettingsError{Own: op.Limits, TTL: op.TTL}}, nil
	case word == "CLOCK" && (op.Kind == wire.Acquire || op.Kind == wire.Latch || op.Kind == wire.Unlatch) && len(n) == 1:
		return clockRefusal(n[0], *op), nil
	default:
		return wire.Reply{}, errForm
	}
}

// decodeRecord decodes the replies of once.
func decodeRecord(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	values, err := msg.ToArray()
	switch {
	case err != nil || len(values) == 0:
		return wire.Reply{Outcome: wire.Inspected}, err
	case len(values) == 2:
		text, err1 := values[0].ToString()
		left, err2 := integers(values[1:])
		if err := errors.Join(err1, err2); err != nil {
			return wire.Reply{}, err
		}
		return wire.Reply{Outcome: wire.Inspected, Holders: []wire.Holder{{Name: op.Names[0], Owner: text, TTL: leftOf(left[0])}}}, nil
	default:
		return decodeRefusal(op, values)
	}
}

// decodeMarker decodes the replies of mark and open.
func decodeMarker(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	if msg.IsInt64() {
		return decodeNumber(op, msg)
	}
	values, err := msg.ToArray()
	if err != nil {
		return wire.Reply{}, err
	}
	if len(values) != 4 {
		return wire.Reply{}, errForm
	}
	identity, err1 := values[0].ToString()
	n, err2 := integers(values[1:])
	if err := errors.Join(err1, err2); err != nil {
		return wire.Reply{}, err
	}
	r := wire.Reply{Outcome: wire.Inspected, Marker: &wire.Marker{
		Identity:  identity,
		Since:     n[0],
		Left:      milli(n[1]),
		HadMarker: n[2] != 0,
	}}
	if op.Kind == wire.Open {
		r.Outcome = wire.Denied
	}
	return r, nil
}

// decodeForced decodes the holders that were removed.
func decodeForced(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	values, err := msg.ToArray()
	if err != nil {
		return wire.Reply{}, err
	}
	holders, err := decodeHolders(op, values, 3)
	r := wire.Reply{Outcome: wire.Released, Holders: wire.WithoutReaders(holders)}
	if len(holders) == 0 {
		r.Outcome = wire.Absent
	}
	return r, err
}

// decodeInspection decodes what is left of the recovery, and the holders.
func decodeInspection(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	values, err := msg.ToArray()
	if err != nil || len(values) == 0 {
		return wire.Reply{}, errors.Join(err, errForm)
	}
	left, err1 := integers(values[:1])
	holders, err2 := decodeHolders(op, values[1:], 4)
	if err := errors.Join(err1, err2); err != nil {
		return wire.Reply{}, err
	}
	r := wire.Reply{Outcome: wire.Inspected, Holders: wire.WithoutReaders(holders), Recovering: milli(left[0])}
	if left[0] < 0 {
		r.Recovering, r.Unmarked = op.Limits.Recovery(), true
	}
	return r, nil
}

// decodeHolders decodes {name, owner, pttl, ...} or {name, owner, pttl, fence, ...}. The names are some of
// the operation's, in its order. After an item that stands for all readers of a name, each reader follows.
func decodeHolders(op *wire.Op, values []rueidis.RedisMessage, width int) ([]wire.Holder, error) {
	if len(values)%width != 0 {
		return nil, fmt.Errorf("%d values cannot be split into groups of %d", len(values), width)
	}
	holders := make([]wire.Holder, 0, len(values)/width)
	read := "" // the name whose readers follow
	for names := op.Names; len(values) > 0; values = values[width:] {
		name, err1 := values[0].ToString()
		owner, err2 := values[1].ToString()
		n, err3 := integers(values[2:width])
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		h := wire.Holder{Name: name, Owner: owner, TTL: leftOf(n[0]), Reads: read != "" && name == read}
		if !h.Reads {
			i := slices.Index(names, name)
			if i < 0 {
				return nil, errors.New("the reply is about another name")
			}
			names = names[i+1:]
		}
		if owner == wire.Readers {
			read = name
		}
		if width == 4 {
			h.Token = uint64(max(n[1], 0))
		}
		holders = append(holders, h)
	}
	return holders, nil
}

// integers returns values that must all be integers.
func integers(values []rueidis.RedisMessage) ([]int64, error) {
	n := make([]int64, len(values))
	for i, v := range values {
		if !v.IsInt64() {
			return nil, errForm
		}
		n[i], _ = v.AsInt64()
	}
	return n, nil
}

// leftOf turns a PTTL into a duration. -2 means that the key has just expired, so nothing is left.
func leftOf(pttl int64) time.Duration {
	if pttl == -1 {
		return wire.NoExpiry
	}
	return milli(pttl)
}

// milli turns milliseconds into a duration, and a negative number into 0.
func milli(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}
