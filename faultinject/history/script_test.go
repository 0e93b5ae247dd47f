package history

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// script writes down a history by hand.
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

func (s *script) about(l Event, kind Kind, call, ret time.Duration, err string) {
	s.add(Event{Kind: kind, Names: l.Names, Lease: l.Op, Owner: l.Owner, Token: l.Token, Call: call, Return: ret, Error: err})
}

func (s *script) act(l Event, call, ret time.Duration)     { s.about(l, Act, call, ret, "") }
func (s *script) refused(l Event, call, ret time.Duration) { s.about(l, Act, call, ret, "over") }
func (s *script) release(l Event, call, ret time.Duration) { s.about(l, Release, call, ret, "") }
func (s *script) lost(l Event, at time.Duration)           { s.about(l, Lost, at, at, "its time ran out") }

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

// plainModel is the model as it stands in the documentation of the package, without what
// makes it fast. It is to judge the one that is used.
func plainModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(old, input, _ any) (bool, any) {
			s, do := old.(state), input.(*step)
			switch do.kind {
			case granted:
				return !s.held && do.token > s.token, state{token: do.token, held: true}
			case seenValid:
				return s.held && s.token == do.token, s
			default:
				return s.held && s.token == do.token, state{token: s.token}
			}
		},
	}
}

// judges are the ways to find out whether the history of each name is legal.
func judges(h *History) (direct, quick, plain bool) {
	first, last := h.span()
	names, leases := h.byName()
	direct, quick, plain = true, true, true
	for _, name := range names {
		ops := operations(leases[name], last+1, newRows())
		direct = direct && len(inspect(name, leases[name], first)) == 0
		quick = quick && porcupine.CheckOperations(model(), ops)
		plain = plain && porcupine.CheckOperations(plainModel(), ops)
	}
	return direct, quick, plain
}
