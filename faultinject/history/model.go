package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is the state of the model of one name.
type state struct {
	// turn is the number of steps so far.
	turn int
	// token is the largest token so far.
	token uint64
	// alone is set while a writer holds the lock; otherwise readers counts the readers.
	alone   bool
	readers int
}

// stepKind is a kind of step of the model.
type stepKind uint8

const (
	granted stepKind = iota + 1
	seenValid
	shared
	ended
)

// step is an event of a lock that takes effect at one instant.
//
// The field turn does not change which orders are legal. It only makes porcupine find one fast. Every lease must get
// its place and tokens must grow, so grants have one order. (Readers with one token may have any; the code orders
// them by return. If that order is illegal, so are all others.) A writer's grant can only come after the ends of all
// leases before it. A reader's grant comes after the writers before it have ended or become readers. An end comes
// after all acts that saw its lease valid. So for each step, the steps that must come before it are known, and there
// is no other constraint. The earliest instant of a step is the latest call of all these. If any order is legal, the
// order by earliest instants is legal. Porcupine gets this order, has no choice left, and needs one pass over the
// history.
type step struct {
	kind  stepKind
	turn  int
	lease *lease
}

// next returns the state after a step, if the step is legal.
func (s state) next(do *step) (bool, state) {
	if do.turn != s.turn {
		return false, s
	}
	s.turn++
	token := do.lease.grant.Token
	switch do.kind {
	case granted:
		if !do.lease.writes() {
			ok := !s.alone && token >= s.token
			s.token = token
			s.readers++
			return ok, s
		}
		ok := !s.alone && s.readers == 0 && token > s.token
		s.token, s.alone = token, true
		return ok, s
	case seenValid:
		return s.alone || s.readers > 0, s
	case shared:
		ok := s.alone
		s.alone = false
		s.readers++
		return ok, s
	default:
		return s.left(do.lease)
	}
}

// left returns the state after the end of a lease.
func (s state) left(l *lease) (bool, state) {
	if l.writes() && l.downgrade == nil {
		ok := s.alone
		s.alone = false
		return ok, s
	}
	ok := s.readers > 0
	s.readers--
	return ok, s
}

// model is the model of one name.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, do, _ any) (bool, any) {
			ok, next := s.(state).next(do.(*step))
			return ok, next
		},
	}
}

// linearize lets porcupine search, until a deadline, for instants at which the steps of one name can have happened.
func linearize(m porcupine.Model, deadline time.Time, steps func() []porcupine.Operation) porcupine.CheckResult {
	left := time.Until(deadline)
	if left <= 0 {
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(m, steps(), left)
}

// operations returns the steps of one name for porcupine. The leases are in the order of their grants. until is a
// time after all others, for steps that may not have happened yet.
func operations(leases []*lease, until time.Duration) []porcupine.Operation {
	o := ordering{until: until}
	for _, l := range leases {
		o.lease(l)
	}
	order := make([]int, len(o.ops))
	for i := range order {
		order[i] = i
	}
	// Steps with equal earliest instants are in order already: each was added after the steps that come before
	// it.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(o.earliest[a], o.earliest[b]) })
	for turn, i := range order {
		o.ops[i].Input.(*step).turn = turn
	}
	return o.ops
}

// ordering creates the steps of one name, lease by lease.
type ordering struct {
	until    time.Duration
	ops      []porcupine.Operation
	earliest []time.Duration // earliest instant of each step
	// granted is the earliest instant of the grant so far. opened is the earliest instant at which readers may join
	// the leases so far. free is the earliest instant at which all of them have ended.
	granted, opened, free time.Duration
}

func (o *ordering) lease(l *lease) {
	from := max(o.granted, o.opened)
	if l.writes() {
		from = max(from, o.free)
	}
	o.granted = o.add(l, granted, l.grant, from)
	last := o.granted
	for _, e := range l.seen {
		last = max(last, o.add(l, seenValid, e, o.granted))
	}
	if l.writes() && l.downgrade != nil {
		e := *l.downgrade
		e.Call, e.Return = l.aloneUntil(), o.until
		at := o.add(l, shared, e, o.granted)
		o.opened, last = max(o.opened, at), max(last, at)
	}
	at := o.add(l, ended, l.end(o.until), last)
	o.free = max(o.free, at)
	if l.writes() && l.downgrade == nil {
		o.opened = max(o.opened, at)
	}
}

// add adds a step that cannot come before some instant, and returns its earliest instant.
func (o *ordering) add(l *lease, kind stepKind, e Event, from time.Duration) time.Duration {
	from = max(from, e.Call)
	o.earliest = append(o.earliest, from)
	o.ops = append(o.ops, porcupine.Operation{
		ClientId: len(o.ops), Input: &step{kind: kind, lease: l}, Call: int64(e.Call), Return: int64(e.Return),
	})
	return from
}

// end returns the end of a lease as an event: not before the lease was last seen valid, and not after it was seen to
// have ended. If these contradict each other, the end comes first, and the model finds an act after the end.
func (l *lease) end(until time.Duration) Event {
	e := l.grant
	e.Call, e.Return = l.validUntil(), until
	if l.over != nil {
		e.Return = l.over.Return
		e.Call = min(e.Call, e.Return)
	}
	return e
}
