package node

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func (w *writer) unlatch(op *wire.Op) {
	w.add(milliseconds(op.TTL))
	w.limits(op)
	w.add(w.numerals.unsigned(op.Token))
}

func (w *writer) latch(op *wire.Op) {
	w.unlatch(op)
	l := op.Latch
	w.add(flag(l.Exact), w.numerals.unsigned(l.Generation), w.numerals.signed(int64(l.Count)), w.numerals.unsigned(l.Since),
		latchFlags(l), w.numerals.signed(l.Whole), l.Inbox, milliseconds(l.Keep))
	w.add(l.IDs...)
}

// latchFlags makes the script's ninth argument.
func latchFlags(l *wire.LatchOp) string {
	var flags strings.Builder
	for _, f := range []struct {
		set  bool
		flag byte
	}{{l.First, 'f'}, {l.Chosen, 'c'}, {l.List, 'l'}, {l.Void, 'v'}} {
		if f.set {
			flags.WriteByte(f.flag)
		}
	}
	return flags.String()
}

// latchWidth is the number of values before the ids in a reply.
const latchWidth = 11

// decodeLatch reads {done, generation, count, since, last, until, whole, size, left, restarted,
// born, id, ...}, or a refusal.
func decodeLatch(op *wire.Op, msg *rueidis.RedisMessage) (wire.Reply, error) {
	values, err := msg.ToArray()
	switch {
	case err != nil:
		return wire.Reply{}, err
	case len(values) > 1 && values[0].IsString():
		return decodeRefusal(op, values)
	case len(values) < latchWidth:
		return wire.Reply{}, errForm
	}
	n, err := integers(values[:latchWidth])
	if err != nil {
		return wire.Reply{}, err
	}
	for _, v := range n {
		if v < 0 {
			return wire.Reply{}, errForm
		}
	}
	s := &wire.LatchState{
		Generation: uint64(n[1]), Count: int(n[2]), Since: uint64(n[3]), Last: uint64(n[4]),
		Lost: n[5], Whole: n[6] != 0, Size: int(n[7]), Born: n[10],
	}
	for _, v := range values[latchWidth:] {
		id, err := v.ToString()
		if err != nil {
			return wire.Reply{}, err
		}
		if len(s.IDs) > 0 && id <= s.IDs[len(s.IDs)-1] {
			return wire.Reply{}, errForm
		}
		s.IDs = append(s.IDs, id)
	}
	if lists := op.Latch != nil && op.Latch.List; lists && len(s.IDs) != s.Size || !lists && len(s.IDs) > 0 {
		return wire.Reply{}, errForm
	}
	r := wire.Reply{Outcome: wire.Denied, Latch: s, Recovering: milli(n[8]), HadMarker: n[9] != 0}
	if n[0] == 1 {
		r.Outcome = wire.Granted
	}
	return r, nil
}
