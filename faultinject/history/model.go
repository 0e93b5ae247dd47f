package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is what the model of a lock remembers of one name.
type state struct {
	// token is the largest so far, and that of the holder if the lock is held.
	token uint64
	held  bool
	// seen is how often the holder's lease has been seen valid.
	seen int
}

func (s state) String() string {
	if s.held {
		return fmt.Sprintf("held with token %d", s.token)
	}
	return fmt.Sprintf("free, largest token %d", s.token)
}

// stepKind is what can happen to a lock.
type stepKind uint8

const (
	granted stepKind = iota + 1
	seenValid
	ended
)

// step is what happened to a lock at some instant.
//
// after and seen do not change what is legal, only how fast it is found. Every lease must
// get its place, and tokens must grow, so a grant can only come right after that of the
// next smaller token. An end can only come after all that saw its lease valid; and these
// may as well come in the order of their calls, since each can happen at its call or at the
// grant, whichever is later. Told so, porcupine has no choice left, and needs one
// pass over the history: else it would try all waiters whenever the lock is free, all
// orders of concurrent acts, and for each lease all instants at which it may have ended.
type step struct {
	kind  stepKind
	token uint64
	after uint64 // for a grant: the token of the grant before
	seen  int    // otherwise: how often the lease was seen valid before
	text  string
}

// next is the state after a step, if the step is legal.
func (s state) next(do *step) (bool, state) {
	switch do.kind {
	case granted:
		ok := !s.held && do.token > s.token && do.after == s.token
		return ok, state{token: do.token, held: true}
	case seenValid:
		ok := s.held && do.token == s.token && do.seen == s.seen
		return ok, state{token: s.token, held: true, seen: s.seen + 1}
	default:
		ok := s.held && do.token == s.token && do.seen == s.seen
		return ok, state{token: s.token}
	}
}

// model is that of one name.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, do, _ any) (bool, any) {
			ok, next := s.(state).next(do.(*step))
			return ok, next
		},
		DescribeOperation: func(do, _ any) string { return do.(*step).text },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
}

// linearize has porcupine search for instants at which the steps of one name can have
// happened, until a deadline.
func linearize(leases []*lease, until time.Duration, deadline time.Time) porcupine.CheckResult {
	left := time.Until(deadline)
	if left <= 0 {
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(model(), operations(leases, until, newRows()), left)
}

// operations are the steps of one name for porcupine. The leases are sorted by token,
// and until is a time after all others: that of what may come never.
func operations(leases []*lease, until time.Duration, rows *rows) []porcupine.Operation {
	var ops []porcupine.Operation
	after := uint64(0)
	for _, l := range leases {
		token := l.grant.Token
		add := func(e Event, do *step) {
			do.token = token
			if do.text == "" {
				do.text = e.String()
			}
			ops = append(ops, porcupine.Operation{
				ClientId: rows.of(e, do.kind), Input: do, Call: int64(e.Call), Return: int64(e.Return),
			})
		}
		add(l.grant, &step{kind: granted, after: after})
		for i, e := range l.seen {
			add(e, &step{kind: seenValid, seen: i})
		}
		end, text := l.end(until)
		add(end, &step{kind: ended, seen: len(l.seen), text: text})
		after = token
	}
	return ops
}

// end is the end of a lease as an event: not before it was last seen valid, not after it
// was seen to be over. If that is a contradiction, the end comes first, and the model finds
// that the lease was seen valid afterwards.
func (l *lease) end(until time.Duration) (e Event, text string) {
	e = l.grant
	e.Call, e.Return = l.validUntil(), until
	why := "nobody saw it"
	if l.over != nil {
		e.Return = l.over.Return
		e.Call = min(e.Call, e.Return)
		why = "by " + l.over.String()
	}
	return e, fmt.Sprintf("%s/w%d end of %s, token %d: %s", e.Client, e.Worker, strings.Join(e.Names, ","), e.Token, why)
}

// rows gives each worker a row in a visualisation, and one more for the ends of its
// leases, which overlap with what the worker does next.
type rows struct {
	index map[row]int
}

type row struct {
	client string
	worker int
	ends   bool
}

func newRows() *rows { return &rows{index: map[row]int{}} }

func (r *rows) of(e Event, kind stepKind) int {
	key := row{e.Client, e.Worker, kind == ended}
	if _, ok := r.index[key]; !ok {
		r.index[key] = len(r.index)
	}
	return r.index[key]
}
