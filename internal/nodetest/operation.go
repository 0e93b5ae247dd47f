package nodetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// question is an operation with what its line says of the reply.
type question struct {
	op   wire.Op
	want []word
}

// nothing is what a line says of a reply that does not matter.
var nothing = []word{{"-", true}}

// flush runs the operations that were collected in one exchange, and checks their replies.
func (x *trial) flush() error {
	asked := x.batch
	x.batch = nil
	var ops []wire.Op
	for _, q := range asked {
		ops = append(ops, q.op)
	}
	for i, r := range x.do(ops...) {
		if err := x.check(asked[i].op, r, asked[i].want); err != nil {
			return err
		}
	}
	return nil
}

// operate runs the operations of a line. The word "timely" before them repeats them while the token is refused because
// the machine was too slow for it.
func (x *trial) operate(words []word) error {
	if !words[0].is("timely") {
		return x.exchange(words)
	}
	for range attempts {
		if err := x.exchange(words[1:]); !errors.Is(err, node.ErrClock) {
			return err
		}
	}
	return errors.New("the machine is too slow, or the node too strict")
}

func (x *trial) exchange(words []word) error {
	parts := append(split(words, "->"), nothing)
	asked, wanted := split(parts[0], ";"), split(parts[1], ",")
	together := x.batching
	if one := split(parts[0], "&"); len(one) > 1 {
		asked, together = one, true
	}
	if len(wanted) != 1 && len(wanted) != len(asked) {
		x.malformed("%d expectations of %d operations", len(wanted), len(asked))
	}
	for i, words := range asked {
		ops := x.ops(words)
		for _, op := range ops {
			x.batch = append(x.batch, question{op, nothing})
		}
		x.batch[len(x.batch)-1].want = wanted[min(i, len(wanted)-1)]
		if !together || !x.batching && i == len(asked)-1 {
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *trial) complete(op wire.Op) wire.Op {
	if op.Limits == (wire.Limits{}) {
		op.Limits = x.limits
	}
	if op.Token == 0 {
		op.Token = x.token()
	}
	return op
}

// token returns a token that is larger than all before it, and not far from the node's clock.
func (x *trial) token() uint64 {
	x.tokens++
	return x.began + x.tokens
}

// spacious returns such a token with room before and behind it for others.
func (x *trial) spacious() uint64 {
	x.tokens += 2000
	return x.began + x.tokens - 1000
}

// junk is in a reply before the node fills it. A caller that reuses a slice leaves old replies there too.
var junk = wire.Reply{
	Outcome:    wire.Granted,
	Holder:     wire.Holder{Name: "junk", Owner: "junk", TTL: 1, Token: 1},
	Holders:    []wire.Holder{{Name: "junk", Owner: "junk", TTL: 1, Token: 1}},
	Rank:       1,
	Pool:       wire.PoolState{Size: 1, Version: 1, Free: []byte{1}},
	Token:      1,
	Recovering: 1,
	HadMarker:  true,
	Unmarked:   true,
	Marker:     &wire.Marker{Identity: "junk", Since: 1},
	Standings:  []wire.Standing{{Known: true}},
	Err:        fmt.Errorf("junk"),
	Unsent:     true,
}

func (x *trial) do(ops ...wire.Op) []wire.Reply {
	return x.doOn(x.Node, ops...)
}

func (x *trial) doOn(n node.Node, ops ...wire.Op) []wire.Reply {
	replies := make([]wire.Reply, len(ops))
	for i := range replies {
		replies[i] = junk
	}
	n.Do(x.ctx, ops, replies)
	return replies
}

// verbs make the operations from the words behind the first. The words "fair", "announce" and, for a latch, "chosen",
// "void" and "list" may stand before it.
var verbs = map[string]func(op *wire.Op, args []string){
	"acquire": owned(wire.Acquire, false),
	"read":    owned(wire.Acquire, true), // as a reader
	"renew":   owned(wire.Renew, false),
	"keep":    owned(wire.Renew, true), // as a reader
	"release": owned(wire.Release, false),
	"unread":  owned(wire.Release, true), // as a reader
	"shorten": owned(wire.Shorten, false),
	"inspect": func(op *wire.Op, args []string) { op.Kind, op.Names = wire.Inspect, args },
	"force":   func(op *wire.Op, args []string) { op.Kind, op.Names = wire.ForceRelease, args },
	// once NAME reads a record, or writes the owner as one.
	"once": func(op *wire.Op, args []string) { op.Kind, op.Names, op.TTL = wire.Once, args, long },
	"mark": func(op *wire.Op, _ []string) { op.Kind = wire.Mark },
	// The following have a waiter as CLIENT:TEXT#TICKET, which is also the owner. queue is an attempt that takes a free
	// name past the waiters before it, fairly is one that does not.
	"queue":    waiting(wire.Acquire, false, false),
	"fairly":   waiting(wire.Acquire, true, false),
	"fairread": waiting(wire.Acquire, true, true),
	"leave":    waiting(wire.Leave, false, false),
	"done":     waiting(wire.Release, false, false), // It waits no more.
	"undo":     waiting(wire.Release, false, false), // It keeps its place.
	"unreads":  waiting(wire.Release, false, true),
	// take OWNER SLOT..., give OWNER SLOT..., quit WAITER and resize VERSION are for the pool.
	"take": func(op *wire.Op, args []string) { owned(wire.Acquire, false)(op, args); inPool(op) },
	"give": func(op *wire.Op, args []string) { owned(wire.Release, false)(op, args); inPool(op) },
	"quit": func(op *wire.Op, args []string) {
		waiting(wire.Leave, false, false)(op, append(args, wire.PoolName("pool")))
		inPool(op)
	},
	"resize": func(op *wire.Op, args []string) {
		op.Kind = wire.Resize
		op.Pool.Version, _ = strconv.ParseUint(args[0], 10, 64)
		inPool(op)
		op.Names = []string{op.Pool.Name}
	},
	// refresh WAITER NAME... / WAITER NAME... is for several waiters. The word "reads" before a waiter makes it a reader;
	// one without names waits for slots of the pool.
	"refresh": refresh,
	// set LATCH COUNT sets it for the first time, count LATCH ID... counts down, look LATCH lists the ids, await LATCH
	// CLIENT registers an inbox, latch LATCH ID... has options.
	"set": func(op *wire.Op, args []string) {
		latched(op, args[:1])
		op.Latch.First = true
		op.Latch.Count, _ = strconv.Atoi(args[1])
	},
	"count": latched,
	"latch": latched,
	"look":  func(op *wire.Op, args []string) { latched(op, args); op.Latch.List = true },
	"await": func(op *wire.Op, args []string) {
		latched(op, args[:1])
		op.Latch.Inbox, op.Latch.Keep = args[1], middle
	},
	"unlatch": func(op *wire.Op, args []string) { op.Kind, op.Names, op.TTL = wire.Unlatch, args, long },
}

func owned(kind wire.Kind, reads bool) func(*wire.Op, []string) {
	return func(op *wire.Op, args []string) {
		op.Kind, op.Reads, op.Owner, op.Names = kind, reads, args[0], args[1:]
	}
}

func waiting(kind wire.Kind, fair, reads bool) func(*wire.Op, []string) {
	return func(op *wire.Op, args []string) {
		op.Kind, op.Fair, op.Reads, op.Names = kind, fair, reads, args[1:]
		op.Waiter = waiter(args[0])
		if kind != wire.Leave {
			op.Owner = wire.WaiterKey(op.Waiter.ID)
		}
	}
}

func refresh(op *wire.Op, args []string) {
	op.Kind, op.TTL = wire.Refresh, long
	for len(args) > 0 {
		end := slices.Index(append(args, "/"), "/")
		var q wire.Waiting
		of := args[:end]
		if args = args[min(end+1, len(args)):]; of[0] == "reads" {
			q.Reads, of = true, of[1:]
		}
		q.Waiter, q.Names = waiter(of[0]), of[1:]
		q.Waiter.Keep = 0
		if len(q.Names) == 0 {
			q.Pool.Name = wire.PoolName("pool")
			q.Names = []string{q.Pool.Name}
		}
		op.Waiting = append(op.Waiting, q)
		for _, name := range q.Names {
			if !slices.Contains(op.Names, name) {
				op.Names = append(op.Names, name)
			}
		}
	}
}

// waiter is one with a ticket that waits on, or one that does not.
func waiter(text string) wire.Waiter {
	id, ticket, waits := strings.Cut(text, "#")
	if !waits {
		return wire.Waiter{ID: id}
	}
	n, _ := strconv.ParseInt(ticket, 10, 64)
	return wire.Waiter{ID: id, Ticket: n, Keep: long}
}

// inPool makes the names of an operation slots of the pool.
func inPool(op *wire.Op) {
	op.Pool.Name = wire.PoolName("pool")
	if op.Kind == wire.Leave {
		return
	}
	for i, slot := range op.Names {
		n, _ := strconv.Atoi(slot)
		op.Names[i] = wire.SlotName(op.Pool.Name, n)
	}
}

func latched(op *wire.Op, args []string) {
	op.Kind, op.Names, op.TTL, op.Latch = wire.Latch, args[:1], long, &wire.LatchOp{IDs: args[1:]}
}

// ops makes the operations of some words. There is only one, but for: freed NAME ID..., which lets waiters queue for a name
// and then releases it, so that the first is woken.
func (x *trial) ops(words []word) (ops []wire.Op) {
	if words[0].is("freed") {
		name := strconv.Quote(words[1].text)
		ops = x.ops(scan("acquire o1 " + name))
		for i, id := range texts(words[2:]) {
			ops = append(ops, x.ops(scan(fmt.Sprintf("fairly %s#%d %s", id, i+1, name)))...)
		}
		return append(ops, x.ops(scan("release o1 "+name))...)
	}
	var op wire.Op
	adverbs := map[string]bool{}
	for len(words) > 1 && slices.Contains([]string{"fair", "announce", "chosen", "void", "list"}, words[0].text) {
		adverbs[words[0].text], words = true, words[1:]
	}
	verb := words[0].text
	var args []string
	var options [][]string
	for _, w := range words[1:] {
		if m := field.FindStringSubmatch(w.text); w.plain && m != nil {
			options = append(options, m)
		} else {
			args = append(args, w.text)
		}
	}
	if verb == "open" {
		op = wire.Op{Kind: wire.Open, Marker: x.found(args)}
	} else if made, ok := verbs[verb]; ok {
		made(&op, args)
	} else {
		x.malformed("no such operation: %q", verb)
	}
	switch op.Kind {
	case wire.Acquire, wire.Renew, wire.ForceRelease:
		op.TTL = long
	case wire.Shorten:
		op.TTL = brief
	}
	if op.Pool.Name != "" {
		op.Pool.Size = x.pool
	}
	for i := range op.Waiting {
		if op.Waiting[i].Pool.Name != "" {
			op.Waiting[i].Pool.Size = x.pool
		}
	}
	op.Fair, op.Announce = op.Fair || adverbs["fair"], adverbs["announce"]
	if l := op.Latch; l != nil {
		l.Chosen, l.Void, l.List = adverbs["chosen"], adverbs["void"], l.List || adverbs["list"]
		op.Token = x.spacious()
	}
	for _, o := range options {
		x.option(&op, o[1], o[3])
	}
	if verb == "set" {
		op.Latch.Since = op.Token
	}
	return []wire.Op{x.complete(op)}
}

// found returns the marker of an Open: ID SINCE, where both may be variables, or "nothing".
func (x *trial) found(args []string) *wire.Marker {
	if args[0] == "nothing" {
		return nil
	}
	return &wire.Marker{Identity: cmp.Or(x.ids[args[0]], args[0]), Since: int64(x.number(args[1]))}
}

func (x *trial) option(op *wire.Op, key, value string) {
	switch key {
	case "token":
		op.Token = x.number(value)
	case "ttl":
		op.TTL = x.duration(value)
	case "limits":
		op.Limits = x.limitsOf(value)
	case "reserve":
		op.Reserve = x.number(value)
	case "floor":
		op.Floor = x.number(value)
	case "owner":
		op.Owner = strings.Replace(value, "@readers", wire.Readers, 1)
	case "buried":
		op.Buried = strings.Split(value, ",")
	case "for":
		op.Waiter = waiter(value)
	case "keep":
		switch keep := x.duration(value); {
		case op.Latch != nil:
			op.Latch.Keep = keep
		case op.Kind == wire.Refresh:
			op.TTL = keep
		default:
			op.Waiter.Keep = keep
		}
	case "of":
		op.Pool.Size = int(x.number(value))
	case "version":
		op.Pool.Version = x.number(value)
	case "pool":
		for i, name := range op.Names {
			op.Names[i] = wire.SlotName(wire.PoolName(value), wire.SlotOf(op.Pool.Name, name))
		}
		if op.Pool.Name = wire.PoolName(value); op.Kind == wire.Resize {
			op.Names = []string{op.Pool.Name}
		}
	case "exact":
		op.Latch.Exact, op.Latch.Generation = true, x.number(value)
	case "to":
		op.Latch.Count = int(x.number(value))
	case "since":
		op.Latch.Since = x.number(value)
	case "whole":
		op.Latch.Whole = int64(x.number(value))
	default:
		x.malformed("no such option: %q", key)
	}
}

// number evaluates A, A+B, A-B, or NAME:=A.
func (x *trial) number(text string) uint64 {
	if name, value, ok := strings.Cut(text, ":="); ok {
		x.vars[name] = x.number(value)
		return x.vars[name]
	}
	at := strings.IndexAny(text, "+-")
	switch {
	case at < 0:
		return x.operand(text)
	case text[at] == '-':
		return x.operand(text[:at]) - x.operand(text[at+1:])
	default:
		return x.operand(text[:at]) + x.operand(text[at+1:])
	}
}

func (x *trial) operand(text string) uint64 {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	if d, err := time.ParseDuration(text); err == nil {
		return uint64(d.Microseconds())
	}
	if _, ok := x.vars[text]; !ok {
		switch text {
		case "old":
			return x.old()
		case "now":
			return x.now()
		}
		x.vars[text] = x.spacious()
	}
	return x.vars[text]
}

// old returns a token that is young enough, and smaller than all from token.
func (x *trial) old() uint64 { return x.began - uint64((limits.MaxTTL / 2).Microseconds()) }

// now returns the node's clock, from its refusal of an old token.
func (x *trial) now() uint64 {
	op := x.complete(wire.Op{Kind: wire.Acquire, Names: []string{"a"}, Owner: "o1", TTL: time.Millisecond, Token: 1})
	r := x.do(op)[0]
	if !errors.Is(r.Err, node.ErrClock) {
		x.malformed("the node does not tell its clock: %+v", r)
	}
	return clockOf(1, r)
}

func (x *trial) duration(text string) time.Duration {
	return time.Duration(x.number(text)) * time.Microsecond
}

func (x *trial) limitsOf(text string) wire.Limits {
	parts := append(strings.Split(text, ","), "0s")
	return wire.Limits{MaxTTL: x.duration(parts[0]), MaxClockSkew: x.duration(parts[1]), Longer: x.duration(parts[2])}
}

func texts(words []word) (texts []string) {
	for _, w := range words {
		texts = append(texts, w.text)
	}
	return texts
}
