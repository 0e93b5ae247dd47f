package history

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// script is a history written by hand.
type script struct {
	events []Event
	leases map[string]Event
}

func (s *script) add(e Event) Event {
	e.Client, e.Op = "c1", uint64(len(s.events)+1)
	e.Name = cmp.Or(e.Name, "job")
	if e.granted() {
		e.Owner = "owner"
	}
	s.events = append(s.events, e)
	return e
}

// call is a call in a text: perhaps a name for its lease, the call, what it is about, its times, and its error.
var call = regexp.MustCompile(`^(?:(\w)=)?(\w+) (.*?) ?(\d+)\.\.(\d+|\?) ?(refused: )?(.*)$`)

// play adds the calls of a text such as "a=grant 5 10..20; act a 30..31; release a 40..? no quorum". These are a grant of a
// lease a with the token 5, an act of that lease, and its release, whose return was not seen. "grant 5 x 10..20" is
// one of the lock x, and "permits 5 0 1 10..20" a grant of the permits 0 and 1 of two. "refused: " begins an error that
// tells the state of a latch.
func (s *script) play(t testing.TB, text string) {
	t.Helper()
	for step := range strings.SplitSeq(text, "; ") {
		m := call.FindStringSubmatch(step)
		require.NotNil(t, m, step)
		number := func(text string) int {
			n, err := strconv.Atoi(text)
			require.NoError(t, err, step)
			return n
		}
		about := strings.Fields(m[3])
		e := Event{Kind: Kind(m[2])}
		switch e.Kind {
		case "grant", "read":
			e.Kind, e.Reads, e.Token, e.Name = Acquire, e.Kind == "read", uint64(number(about[0])), strings.Join(about[1:], "")
		case Acquire:
			e.Reads = len(about) > 0
		case "permits":
			e.Kind, e.Of, e.Size, e.Token, e.Permits = Acquire, Semaphore, 2, uint64(number(about[0])), len(about)-1
			for _, slot := range about[1:] {
				e.Slots = append(e.Slots, number(slot))
			}
		case Resize:
			e.Of, e.Size = Semaphore, number(about[0])
		case Act, Release, Lost, Downgrade:
			kind := e.Kind
			e = s.leases[about[0]]
			e.Kind, e.Lease, e.Return = kind, e.Op, 0
		default:
			e.Of = Latch
			if e.Kind == CountDown {
				e.ID = about[0]
			} else if len(about) > 0 {
				e.Count = number(about[0])
			}
		}
		e.Call, e.Error = time.Duration(number(m[4])), m[7]
		if m[5] != "?" {
			e.Return = time.Duration(number(m[5]))
		}
		if m[6] != "" {
			e.Refusal = Refusal(m[7])
			if set, ok := strings.CutPrefix(m[7], "set to "); ok {
				e.Refusal, e.Found = SetOtherwise, number(set)
			}
		}
		e = s.add(e)
		if m[1] != "" {
			if s.leases == nil {
				s.leases = map[string]Event{}
			}
			s.leases[m[1]] = e
		}
	}
}

// play returns the history of a text: see [script.play].
func play(t testing.TB, text string) *History {
	t.Helper()
	var s script
	if text != "" {
		s.play(t, text)
	}
	return s.history(t)
}

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

type stepKind uint8

const (
	granted stepKind = iota + 1
	seenValid
	shared
	ended
)

// step is an event of a lock that takes effect at one instant.
type step struct {
	kind  stepKind
	lease *lease
}

// operations returns the steps of one name for porcupine. until is a time after all others, for steps that may not have
// happened yet.
func operations(leases []*lease, until time.Duration) (ops []porcupine.Operation) {
	for _, l := range leases {
		add := func(kind stepKind, call, end time.Duration) {
			ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: &step{kind, l}, Call: int64(call), Return: int64(end)})
		}
		add(granted, l.grant.Call, l.grant.Return)
		for _, e := range l.seen {
			add(seenValid, e.Call, e.Return)
		}
		if l.writes() && l.downgrade != nil {
			add(shared, l.aloneUntil(), until)
		}
		// The end is not before the lease was last seen valid, and not after it was seen to have ended. If these contradict
		// each other, it comes first, and the model finds an act after the end.
		if l.over == nil {
			add(ended, l.validUntil(), until)
		} else {
			add(ended, min(l.validUntil(), l.over.Return), l.over.Return)
		}
	}
	return ops
}

// plainModel is the model as the package documentation states it. It judges the comparisons.
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

// judges returns the verdicts of the two checkers for the history of each lock, or permit.
func judges(h *History) (direct, plain bool) {
	first, last := h.span()
	exclusive, leases := h.bySubject()
	direct, plain = true, true
	for _, s := range exclusive {
		direct = direct && len(inspect(s, leases[s], first)) == 0
		plain = plain && porcupine.CheckOperations(plainModel(), operations(leases[s], last+1))
	}
	return direct, plain
}
