package history

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// script is a history written by hand.
type script struct {
	events []Event
}

func (s *script) add(e Event) Event {
	e.Client, e.Op = "c1", uint64(len(s.events)+1)
	if e.Names == nil {
		e.Names = []string{"job"}
	}
	s.events = append(s.events, e)
	return e
}

func (s *script) grant(token uint64, call, ret time.Duration, names ...string) Event {
	return s.add(Event{Kind: Acquire, Names: names, Owner: "owner", Token: token, Call: call, Return: ret})
}

// read is a grant to a reader.
func (s *script) read(token uint64, call, ret time.Duration) Event {
	return s.add(Event{Kind: Acquire, Reads: true, Owner: "owner", Token: token, Call: call, Return: ret})
}

// permits is a grant of permits with these numbers, of two.
func (s *script) permits(token uint64, call, ret time.Duration, slots ...int) Event {
	return s.add(Event{
		Kind: Acquire, Of: Semaphore, Size: 2, Permits: len(slots), Slots: slots, Owner: "owner", Token: token, Call: call, Return: ret,
	})
}

// counted is a grant of a permit without a number, of two.
func (s *script) counted(call, ret time.Duration) Event {
	return s.add(Event{Kind: Acquire, Of: Semaphore, Size: 2, Permits: 1, Owner: "owner", Call: call, Return: ret})
}

func (s *script) resize(to int, call, ret time.Duration, err string) {
	s.add(Event{Kind: Resize, Of: Semaphore, Size: to, Call: call, Return: ret, Error: err})
}

// latch is a call of a latch about an id or a number. It returns the number of the event.
func (s *script) latch(kind Kind, about any, call, ret time.Duration, err string) int {
	e := Event{Kind: kind, Of: Latch, Call: call, Return: ret, Error: err}
	switch about := about.(type) {
	case string:
		e.ID = about
	case int:
		e.Count = about
	}
	return int(s.add(e).Op)
}

// refusedBecause gives an event the reason of its failure.
func (s *script) refusedBecause(why Refusal, found, event int) {
	s.events[event-1].Refusal, s.events[event-1].Found = why, found
}

func (s *script) about(l Event, kind Kind, call, ret time.Duration, err string) {
	e := l
	e.Kind, e.Lease, e.Call, e.Return, e.Error = kind, l.Op, call, ret, err
	s.add(e)
}

func (s *script) downgrade(l Event, call, ret time.Duration) { s.about(l, Downgrade, call, ret, "") }

func (s *script) act(l Event, call, ret time.Duration)     { s.about(l, Act, call, ret, "") }
func (s *script) refused(l Event, call, ret time.Duration) { s.about(l, Act, call, ret, "over") }
func (s *script) release(l Event, call, ret time.Duration) { s.about(l, Release, call, ret, "") }
func (s *script) lost(l Event, at time.Duration)           { s.about(l, Lost, at, at, "it expired") }

func (s *script) releaseFailed(l Event, call, ret time.Duration) {
	s.about(l, Release, call, ret, "no quorum")
}

func (s *script) failed(call, ret time.Duration) {
	s.add(Event{Kind: Acquire, Call: call, Return: ret, Error: "no quorum"})
}

func (s *script) unanswered(call time.Duration) { s.add(Event{Kind: Acquire, Call: call}) }

func (s *script) history(t testing.TB) *History {
	t.Helper()
	h, err := New(s.events...)
	require.NoError(t, err)
	return h
}

// plainState is the state of plainModel: the current leases, and which of them are writers'.
type plainState struct {
	token uint64
	held  map[*lease]bool
}

func (s plainState) with(l *lease, writes bool) plainState {
	held := maps.Clone(s.held)
	held[l] = writes
	return plainState{token: l.grant.Token, held: held}
}

// plainModel is the model as the package documentation states it, without optimisation. It judges the model that is
// used.
func plainModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return plainState{held: map[*lease]bool{}} },
		Step: func(s, do, _ any) (bool, any) { return plainStep(s.(plainState), do.(*step)) },
		Equal: func(a, b any) bool {
			return a.(plainState).token == b.(plainState).token && maps.Equal(a.(plainState).held, b.(plainState).held)
		},
	}
}

func plainStep(s plainState, do *step) (bool, plainState) {
	_, held := s.held[do.lease]
	alone := slices.Contains(slices.Collect(maps.Values(s.held)), true)
	token := do.lease.grant.Token
	switch {
	case do.kind == granted && do.lease.writes():
		return len(s.held) == 0 && token > s.token, s.with(do.lease, true)
	case do.kind == granted:
		return !alone && token >= s.token, s.with(do.lease, false)
	case !held:
		return do.kind == shared, s
	case do.kind == shared:
		next := s.with(do.lease, false)
		next.token = s.token
		return true, next
	case do.kind == ended:
		next := plainState{token: s.token, held: maps.Clone(s.held)}
		delete(next.held, do.lease)
		return true, next
	default:
		return true, s
	}
}

// judges returns the verdicts of the three checkers for the history of each lock, or permit.
func judges(h *History) (direct, quick, plain bool) {
	first, last := h.span()
	_, exclusive, leases := h.bySubject()
	direct, quick, plain = true, true, true
	for _, s := range exclusive {
		ops := operations(leases[s], last+1, newRows())
		direct = direct && len(inspect(s, leases[s], first)) == 0
		quick = quick && porcupine.CheckOperations(model(), ops)
		plain = plain && porcupine.CheckOperations(plainModel(), ops)
	}
	return direct, quick, plain
}
