package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// far is a node that answers each exchange after a while. It fails a test whose exchanges overlap
// though their operations share a name.
type far struct {
	scripted
	t         *testing.T
	roundTrip time.Duration

	mu      sync.Mutex
	using   map[string]bool
	flights int
	most    int
	// order has the owners of each name, as the operations left.
	order    map[string][]string
	identity string
	// breaks draws whether an exchange fails; nil is never.
	breaks func() bool
}

func newFar(t *testing.T, roundTrip time.Duration) *far {
	return &far{t: t, roundTrip: roundTrip, using: make(map[string]bool), order: make(map[string][]string)}
}

func (f *far) RoundTrip() time.Duration { return f.roundTrip }

func (f *far) Server() (identity, process string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.identity, ""
}

func (f *far) setIdentity(identity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.identity = identity
}

func (f *far) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	f.mu.Lock()
	f.flights++
	f.most = max(f.most, f.flights)
	mine := make(map[string]bool)
	for _, op := range ops {
		names := op.Names
		if op.Pool.Name != "" {
			names = append(slices.Clip(names), op.Pool.Name)
		}
		for _, name := range names {
			assert.False(f.t, f.using[name], "two exchanges have %s", name)
			mine[name] = true
			f.order[name] = append(f.order[name], op.Owner)
		}
	}
	for name := range mine {
		f.using[name] = true
	}
	breaks := f.breaks != nil && f.breaks()
	f.mu.Unlock()

	time.Sleep(f.roundTrip)
	f.scripted.Do(ctx, ops, replies)

	f.mu.Lock()
	defer f.mu.Unlock()
	f.flights--
	for name := range mine {
		delete(f.using, name)
	}
	for i := range replies {
		if breaks {
			replies[i] = wire.Reply{Err: &node.Error{Node: "far", Op: ops[i].Kind.String(), Reason: node.ErrUnreachable}}
		}
	}
}

// timed is a receiver that notes how long an answer took.
type timed struct {
	mu   sync.Mutex
	came map[*Call]time.Time
	took []time.Duration
}

func (r *timed) Answer(c *Call, _ *wire.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, time.Since(r.came[c]))
}

func (r *timed) forget() {
	synctest.Wait()
	r.took = nil
}

func (r *timed) submit(t *testing.T, s *sender, owner string) {
	c := &Call{Op: &wire.Op{Kind: wire.Acquire, Names: []string{"lock of " + owner}, Owner: owner}, To: r}
	r.mu.Lock()
	r.came[c] = time.Now()
	r.mu.Unlock()
	require.NoError(t, s.submit(c))
}

// Calls to a node that is far away do not wait for the answers to earlier calls.
func TestCallsToAFarNodeTakeOneRoundTrip(t *testing.T) {
	const callers, roundTrip = 16, 4 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		nd := newFar(t, roundTrip)
		n := newNodes(&events{}, nd)
		defer n.Close()
		r := &timed{came: make(map[*Call]time.Time)}
		r.submit(t, n.senders[0], "the first call")
		time.Sleep(2 * roundTrip)
		r.forget()
		for i := range callers {
			time.Sleep(roundTrip / (callers + 1))
			r.submit(t, n.senders[0], fmt.Sprint(i))
		}
		time.Sleep(3 * roundTrip)
		synctest.Wait()
		require.Len(t, r.took, callers)
		assert.Equal(t, roundTrip, slices.Max(r.took))
		assert.Len(t, nd.owners(), 1+callers)
	})
}

// A crowd shares exchanges with a node that is far away.
func TestFlightsAreBounded(t *testing.T) {
	const callers, roundTrip = 1000, 2 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		nd := newFar(t, roundTrip)
		n := newNodes(&events{}, nd)
		defer n.Close()
		r := &timed{came: make(map[*Call]time.Time)}
		for i := range callers {
			time.Sleep(roundTrip / callers)
			r.submit(t, n.senders[0], fmt.Sprint(i))
		}
		time.Sleep(3 * roundTrip)
		synctest.Wait()
		require.Len(t, r.took, callers)
		assert.Equal(t, int(roundTrip/flightGap), nd.most)
		assert.Less(t, slices.Max(r.took), 2*roundTrip)
		assert.Less(t, len(nd.owners()), 4*int(roundTrip/flightGap))
	})
}

// Exchanges with a node that is near never overlap.
func TestOneFlightToANearNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd := newFar(t, farAway-1)
		n := newNodes(&events{}, nd)
		defer n.Close()
		r := &timed{came: make(map[*Call]time.Time)}
		for i := range 100 {
			time.Sleep(farAway / 10)
			r.submit(t, n.senders[0], fmt.Sprint(i))
		}
		time.Sleep(3 * farAway)
		synctest.Wait()
		require.Len(t, r.took, 100)
		assert.Equal(t, 1, nd.most)
	})
}

// Calls that share a name or a pool leave in order, and never in two exchanges at once, whatever fails.
func TestOrderOfCallsToAFarNode(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // any numbers will do
			nd := newFar(t, 4*time.Millisecond)
			faults := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // see above
			nd.breaks = func() bool { return seed%2 == 1 && faults.IntN(20) == 0 }
			n := newNodes(&events{}, nd)
			s := n.senders[0]
			var a answers
			accepted := make(map[string][]string)
			for i := range 500 {
				time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
				owner := fmt.Sprint(i)
				names := []string{fmt.Sprint("lock ", rng.IntN(20))}
				if other := fmt.Sprint("lock ", rng.IntN(20)); rng.IntN(4) == 0 && other != names[0] {
					names = append(names, other)
				}
				op := &wire.Op{Kind: wire.Acquire, Names: names, Owner: owner}
				if rng.IntN(4) == 0 { // for a permit: a release within MinHold does not name the pool of its slot
					names = []string{fmt.Sprint("slot ", rng.IntN(3))}
					op.Names = names
					if rng.IntN(2) == 0 {
						op.Pool.Name = "pool"
						names = []string{"pool", names[0]}
					}
				}
				err := s.submit(&Call{Op: op, To: &a})
				if err == nil {
					for _, name := range names {
						accepted[name] = append(accepted[name], owner)
					}
				}
			}
			n.Close()
			assert.Greater(t, nd.most, 2)
			for name, owners := range accepted {
				sent := nd.order[name]
				at := 0
				for _, owner := range owners {
					assert.Len(t, a.told[owner], 1, owner)
					if at < len(sent) && sent[at] == owner {
						at++
					} else {
						assert.True(t, a.told[owner][0].Unsent, "%s of %s in %v", owner, name, sent)
					}
				}
				assert.Len(t, sent, at)
			}
			assert.Empty(t, s.flights.names, "no name is held once all is answered")
		})
	}
}

// Exchanges that were under way together fail together, which counts as one failure.
func TestFlightsFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd := newFar(t, 4*time.Millisecond)
		nd.breaks = func() bool { return true }
		e := &events{}
		n := newNodes(e, nd)
		defer n.Close()
		s := n.senders[0]
		r := &timed{came: make(map[*Call]time.Time)}
		for i := range 10 {
			r.submit(t, s, fmt.Sprint(i))
			synctest.Wait()
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Len(t, r.took, 10)
		s.mu.Lock()
		assert.Equal(t, 1, s.health.failures)
		assert.Zero(t, s.workers)
		s.mu.Unlock()
		assert.Len(t, e.news, 1)
	})
}

// If a flight is overdue, the calls behind it are told, and the node is not asked for more.
func TestOverdueFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nd := newFar(t, 4*time.Millisecond)
		n := newNodes(&events{}, nd)
		defer n.Close()
		s := n.senders[0]
		r := &timed{came: make(map[*Call]time.Time)}
		r.submit(t, s, "the first call")
		time.Sleep(10 * time.Millisecond)
		r.forget()
		gate := make(chan struct{})
		nd.set(gate, nil)
		for i := range 10 {
			r.submit(t, s, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		r.submit(t, s, "1")
		time.Sleep(timeoutMax)
		synctest.Wait()
		require.Len(t, r.took, 11)
		assert.Less(t, slices.Max(r.took), timeoutMax)
		c := &Call{Op: &wire.Op{Kind: wire.Acquire, Names: []string{"another"}}, To: r}
		require.ErrorIs(t, s.submit(c), node.ErrDown)
		nd.set(nil, nil)
		close(gate)
		time.Sleep(timeoutMax)
		r.submit(t, s, "another")
	})
}

// An answer may come from the server before a change of servers. Two nodes on one server have one
// vote, even if one of them leads to another server when the answer is settled.
func TestFlightOfAServerThatHasTheVoteElsewhere(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second := newFar(t, 4*time.Millisecond), newFar(t, 4*time.Millisecond)
			first.setIdentity("one server")
			second.setIdentity("one server")
			n := newNodes(&events{}, first, second)
			defer n.Close()
			var a answers
			require.NoError(t, n.Submit(0, ask(&a, "first")))
			time.Sleep(10 * time.Millisecond)
			require.NoError(t, n.Submit(1, ask(&a, "second")))
			time.Sleep(time.Millisecond)
			if late {
				second.setIdentity("another server")
			}
			time.Sleep(10 * time.Millisecond)
			require.NoError(t, n.Submit(1, ask(&a, "third")))
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			require.NoError(t, a.of(t, "first").Err)
			require.ErrorIs(t, a.of(t, "second").Err, node.ErrSameServer)
			if late {
				require.NoError(t, a.of(t, "third").Err)
			} else {
				require.ErrorIs(t, a.of(t, "third").Err, node.ErrSameServer)
			}
		})
	}
}
