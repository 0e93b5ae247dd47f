package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simulation is a correct lock with expiry, and its clients. It decides when events happen, and records intervals
// around these instants.
type simulation struct {
	*rand.Rand
	acts   int
	events []Event
	ops    map[string]uint64
	now    time.Duration
	token  uint64
}

// clients is the number of clients, and slack how far call and return may be from the instant.
const (
	clients = 3
	slack   = 20 * time.Nanosecond
)

func newSimulation(r *rand.Rand, acts int) *simulation {
	return &simulation{Rand: r, acts: acts, ops: map[string]uint64{}, now: 10 * slack}
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.Int64N(int64(d) + 1))
}

func (s *simulation) add(e Event) Event {
	s.ops[e.Client]++
	e.Op = s.ops[e.Client]
	s.events = append(s.events, e)
	return e
}

// grant is a grant that happens now, with the last token.
func (s *simulation) grant(e Event) Event {
	e.Client, e.Worker, e.Kind = fmt.Sprintf("c%d", s.IntN(clients)), s.IntN(4), Acquire
	e.Owner, e.Token = "o"+strconv.FormatUint(s.token, 36), s.token
	e.Call, e.Return = s.now-s.upTo(5*slack), s.now+s.upTo(slack)
	return s.add(e)
}

func (s *simulation) hold(grant Event) {
	about := grant
	about.Lease = grant.Op
	for range s.IntN(2*s.acts + 1) {
		s.now += 1 + s.upTo(slack)
		if s.now < grant.Return {
			continue
		}
		e := about
		e.Kind, e.Call, e.Return = Act, max(grant.Return, s.now-s.upTo(slack)), s.now+s.upTo(slack)
		s.add(e)
	}
	s.now += 1 + s.upTo(slack)
	s.end(about, grant.Return)
}

func (s *simulation) end(e Event, from time.Duration) {
	earliest := max(from, s.now-s.upTo(slack))
	e.Kind, e.Call, e.Return = Release, earliest, max(from, s.now)+s.upTo(slack)
	switch s.IntN(10) {
	case 0: // killed
		return
	case 1: // killed while it released
		e.Return = 0
	case 2:
		e.Error = "no quorum"
	case 3:
		e.Kind, e.Call = Lost, e.Return
	case 4:
		e.Kind, e.Error = Act, "it expired"
	default:
		if earliest > s.now {
			return // its time ran out before its client knew that it had it
		}
	}
	s.add(e)
}

func (s *simulation) history(t testing.TB) *History {
	t.Helper()
	h, err := New(s.events...)
	require.NoError(t, err)
	return h
}

// between returns an instant of a small history, in which instants are often equal.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}

// seeds runs a test with seeds that it logs, or with the seed in the environment.
func seeds(t *testing.T, count int, test func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	first := rand.Uint64()
	if text := os.Getenv("HISTORY_SEED"); text != "" {
		var err error
		first, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		count = 1
	}
	for i := range uint64(count) {
		seed := first + i
		test(t, rand.New(rand.NewPCG(seed, 0)))
		if t.Failed() {
			t.Fatalf("HISTORY_SEED=%d", seed)
		}
	}
}

// corrupt changes one event so that the history may be illegal but is still well-formed.
func corrupt(r *rand.Rand, events []Event) {
	e := &events[r.IntN(len(events))]
	by := time.Duration(r.IntN(200))
	switch {
	case e.Kind != Acquire && r.IntN(3) > 0: // later
		e.Call += by
		if e.returned() {
			e.Return += by
		}
	case e.Kind == Acquire && r.IntN(2) == 0: // earlier
		by = min(by, e.Call-1)
		e.Call -= by
		e.Return -= by
	default: // another token
		to := events[r.IntN(len(events))].Token
		client, lease := e.Client, max(e.Lease, e.Op)
		if e.Kind != Acquire {
			lease = e.Lease
		}
		for i := range events {
			if events[i].Client == client && (events[i].Op == lease || events[i].Lease == lease) {
				events[i].Token = to
			}
		}
	}
}

// TestBothCheckersAgreeOnAnything takes small random histories, in which times are often equal.
func TestBothCheckersAgreeOnAnything(t *testing.T) {
	grants := []string{"a=grant %d", "a=grant %d", "a=read %d"}
	uses := []string{
		"act a C..R", "act a C..R", "act a C..R over", "release a C..R", "release a C..R no quorum", "downgrade a C..R", "downgrade a C..?",
	}
	agreeOn(t, 4000, func(t *testing.T, r *rand.Rand) *History {
		var s script
		for range 1 + r.IntN(4) {
			call := between(r, 1, 12)
			granted := between(r, call, 14)
			s.play(t, fmt.Sprintf(grants[r.IntN(len(grants))]+" %d..%d", 1+r.Uint64N(6), call, granted))
			for range r.IntN(4) {
				call := between(r, granted, 16)
				times := strings.NewReplacer("C", fmt.Sprint(int64(call)), "R", fmt.Sprint(int64(between(r, call, 18))))
				s.play(t, times.Replace(uses[r.IntN(len(uses))]))
			}
		}
		return s.history(t)
	})
}

// agreeOn generates histories, of which some must be legal and some not. It requires that both judges agree on each.
func agreeOn(t *testing.T, count int, history func(t *testing.T, r *rand.Rand) *History) {
	t.Helper()
	verdicts := map[bool]int{}
	seeds(t, count, func(t *testing.T, r *rand.Rand) { verdicts[verdict(t, history(t, r))]++ })
	t.Log(verdicts)
	if os.Getenv("HISTORY_SEED") == "" {
		require.Greater(t, verdicts[true], count/10)
		require.Greater(t, verdicts[false], count/10)
	}
}

// verdict returns the common verdict of both judges.
func verdict(t *testing.T, h *History) (legal bool) {
	t.Helper()
	direct, plain := judges(h)
	if direct != plain {
		t.Errorf("comparisons say %t, and porcupine %t", direct, plain)
	}
	return direct
}
