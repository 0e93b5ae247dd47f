package quorumlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// spy is a client's way to a node that counts what it asks for, and has a say in what
// arrives in its inbox.
type spy struct {
	*node.Memory
	mu sync.Mutex
	// acquisitions counts those, entries those of them that leave an entry, and listened
	// the subscriptions.
	acquisitions, entries, listened int
	// after is run after an exchange with acquisitions, before anybody is told what came of
	// it, and message for each message, which is delivered if it says so. Either may be nil.
	after   func()
	message func(node.Message) bool
	// listening is waited for by Listen.
	listening chan struct{}
}

func (s *spy) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	s.mu.Lock()
	acquisitions := 0
	for _, op := range ops {
		if op.Kind == node.Acquire {
			acquisitions++
			if op.Waiter.ID != "" {
				s.entries++
			}
		}
	}
	s.acquisitions += acquisitions
	after := s.after
	s.mu.Unlock()
	s.Memory.Do(ctx, ops, replies)
	if after != nil && acquisitions > 0 {
		after()
	}
}

func (s *spy) Listen(ctx context.Context, client string, deliver func(node.Message)) (node.Inbox, error) {
	s.mu.Lock()
	s.listened++
	wait := s.listening
	s.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	return s.Memory.Listen(ctx, client, func(m node.Message) {
		s.mu.Lock()
		message := s.message
		s.mu.Unlock()
		if message == nil || message(m) {
			deliver(m)
		}
	})
}

// asked is how often the lock was asked for.
func (s *spy) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquisitions
}

// listens is how often a subscription was made.
func (s *spy) listens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listened
}

// signed is how many acquisitions would leave an entry.
func (s *spy) signed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries
}

func (s *spy) set(change func(*spy)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// spied makes a client that is watched on its way to every node.
func (f *fleet) spied() (*quorumlock.Client, []*spy) {
	spies := make([]*spy, len(f.nodes))
	return f.client(func(cfg *quorumlock.Config) {
		for i, nd := range f.nodes {
			spies[i] = &spy{Memory: nd}
			cfg.Nodes[i] = spies[i]
		}
	}), spies
}

// waiters are how many entries the queues of all nodes have for the lock of the test, which
// has to be held.
func (f *fleet) waiters() (n int) {
	f.t.Helper()
	const name = "job"
	// A stranger who asks in vain, for a name of somebody's, is told how many are before it.
	for _, nd := range f.nodes {
		op := node.Op{
			Kind: node.Acquire, Names: []string{name}, Owner: "stranger:1", TTL: time.Second,
			Token: uint64(f.clock.Wall().UnixMicro()), Limits: f.limits,
			Waiter: node.Waiter{ID: "stranger:1", Ticket: 1 << 52, Keep: time.Millisecond},
		}
		replies := make([]node.Reply, 1)
		nd.Do(f.t.Context(), []node.Op{op}, replies)
		require.Equal(f.t, node.Denied, replies[0].Outcome)
		n += replies[0].Rank
		nd.Do(f.t.Context(), []node.Op{{Kind: node.Leave, Names: []string{name}, Waiter: node.Waiter{ID: "stranger:1"}}}, replies)
	}
	return n
}

// frozen has somebody stand in the queues of some nodes for the lock of the test, who listens, and does not come.
func (f *fleet) frozen(id string, ticket int64, listens bool, nodes ...int) {
	f.t.Helper()
	for _, i := range nodes {
		if listens {
			inbox, err := f.nodes[i].Listen(f.t.Context(), id, func(node.Message) {})
			require.NoError(f.t, err)
			f.t.Cleanup(func() { _ = inbox.Close() })
		}
		replies := make([]node.Reply, 1)
		f.nodes[i].Do(f.t.Context(), []node.Op{{
			Kind: node.Acquire, Names: []string{"job"}, Owner: id + ":o", TTL: time.Second, Fair: true,
			Token: uint64(f.clock.Wall().UnixMicro()), Limits: f.limits,
			Waiter: node.Waiter{ID: id + ":1", Ticket: ticket, Keep: time.Minute},
		}}, replies)
		require.Equal(f.t, node.Denied, replies[0].Outcome)
	}
}

func held(t *testing.T, l *quorumlock.Lock) *quorumlock.Lease {
	t.Helper()
	lease, err := l.TryAcquire(t.Context())
	require.NoError(t, err)
	settled()
	return lease
}

// The order of clients is that in which they came, whatever the order of their names.
func TestClientsTakeTurns(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		g := &grants{f: f}
		r := &referee{t: t}
		var wg sync.WaitGroup
		var want []string
		for i := range 12 {
			who := string(rune('a' + (i*5)%12))
			want = append(want, who)
			g.wait(t.Context(), &wg, who, f.client().RedLock("job"), 10*time.Millisecond)
			settled()
			time.Sleep(time.Duration(i%3+1) * time.Millisecond)
		}
		time.Sleep(777 * time.Millisecond)
		r.grant(before)
		require.NoError(t, before.Release(t.Context()))
		wg.Wait()
		require.Equal(t, want, g.order())
		for i := 1; i < 12; i++ {
			require.Greater(t, g.s[i].token, g.s[i-1].token)
			require.Equal(t, 10*time.Millisecond, g.s[i].at-g.s[i-1].at, "at once")
		}
	})
}

// A waiter asks, asks again with an entry, and then listens: it is asked for nothing more
// than now and then.
func TestAWaiterHardlyAsks(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		c, spies := f.spied()
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.waits())
		require.Equal(t, 5, f.waiters())
		for _, s := range spies {
			require.Equal(t, 2, s.asked())
		}
		time.Sleep(30 * time.Second)
		require.NoError(t, before.Release(t.Context()))
		_ = waits.has()
		settled()
		for _, s := range spies {
			require.Equal(t, 1, s.listens())
			require.LessOrEqual(t, s.asked(), 2+30*4/3+1+1)
			require.GreaterOrEqual(t, s.asked(), 2+30)
		}
	})
}

// Nothing is left in the queues by who has got it, nor by who gives up, whether he was
// denied, or is being asked.
func TestNobodyIsLeftInAQueue(t *testing.T) {
	for _, paused := range []int{0, 2, 5} {
		inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
			before := held(t, f.client().RedLock("job"))
			ctx, cancel := context.WithCancel(t.Context())
			job := f.client().RedLock("job")
			waits := acquiring(ctx, t, job)
			behind := acquiring(ctx, t, job)
			f.pause(upTo(paused)...)
			time.Sleep(1001 * time.Millisecond) // an attempt is under way
			cancel()
			<-waits.done
			<-behind.done
			f.resume(upTo(paused)...)
			time.Sleep(2 * time.Second)
			require.Zero(t, f.waiters())
			require.NoError(t, before.Release(t.Context()))
			f.noKeys()
		})
	}
}

// A holder that dies tells nobody; its time is known. Without chance: who has looked just before that
// time, as waiters do once a second, holds back for a moment before the next attempt.
func TestTheCrashOfAHolder(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		even := func(cfg *quorumlock.Config) { cfg.Jitter = func() float64 { return 0.5 } }
		f.client()
		f.take("job", "dead", 0, 1, 2, 3, 4)
		waits := make([]*acquisition, 5)
		for i := range waits {
			waits[i] = acquiring(t.Context(), t, f.client(even).RedLock("job"))
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, quorumlock.DefaultTTL, f.elapsed(func() { <-waits[0].done })+5*time.Millisecond)
		require.NoError(t, waits[0].has().Release(t.Context()))
		for _, a := range waits[1:] {
			require.NoError(t, a.has().Release(t.Context()))
		}
	})
}

// A woken waiter that is killed, hangs, or gives up stands in nobody's way for long.
func TestAWokenWaiterThatDoesNotCome(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
			before := held(t, f.client().RedLock("job"))
			f.frozen("dead", 1, false, 0, 1, 2, 3, 4)
			waits := acquiring(t.Context(), t, f.client().RedLock("job"))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, before.Release(t.Context()))
			_ = waits.has()
		})
	})
	t.Run("hangs", func(t *testing.T) {
		inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
			before := held(t, f.client().RedLock("job"))
			f.frozen("hung", 1, true, 0, 1, 2, 3, 4)
			waits := acquiring(t.Context(), t, f.client().RedLock("job"))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, before.Release(t.Context()))
			took := f.elapsed(func() { <-waits.done })
			require.GreaterOrEqual(t, took, 50*time.Millisecond)
			require.Less(t, took, 60*time.Millisecond)
			// It has lost its privilege, and is not waited for again.
			next := acquiring(t.Context(), t, f.client().RedLock("job"))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, waits.has().Release(t.Context()))
			require.Less(t, f.elapsed(func() { <-next.done }), 51*time.Millisecond)
		})
	})
	t.Run("gives up", func(t *testing.T) {
		for i := range 50 {
			inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
				before := held(t, f.client().RedLock("job"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := acquiring(ctx, t, f.client().RedLock("job"))
				second := acquiring(t.Context(), t, f.client().RedLock("job"))
				time.Sleep(time.Duration(i) * 37 * time.Millisecond)
				go cancel()
				require.NoError(t, before.Release(t.Context()))
				if <-first.done; first.err == nil {
					require.NoError(t, first.lease.Release(t.Context()))
				}
				require.LessOrEqual(t, f.elapsed(func() { <-second.done }), 31*time.Millisecond)
				require.NoError(t, second.has().Release(t.Context()))
				f.noKeys()
			})
		}
	})
}

// A name that is free everywhere but on one node, and whose waiters stand on one node only.
func TestEntriesOnOneNodeOnly(t *testing.T) {
	inVirtualTime(t, 5, func(t *testing.T, f *fleet) {
		c, spies := f.spied()
		before := held(t, f.client().RedLock("job"))
		for i, s := range spies {
			if i != 3 {
				s.set(func(s *spy) { s.listening = make(chan struct{}) })
			}
		}
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, f.waiters())
		require.NoError(t, before.Release(t.Context()))
		require.LessOrEqual(t, f.elapsed(func() { <-waits.done }), time.Millisecond, "one is enough to be woken")
		_ = waits.has()
	})
}

// No entry is left on a node that may not be able to wake it: a release in between would
// wake nobody.
func TestNoEntryBeforeTheInbox(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		c, spies := f.spied()
		confirm := make(chan struct{})
		for _, s := range spies {
			s.set(func(s *spy) { s.listening = confirm })
		}
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		time.Sleep(777 * time.Millisecond)
		for _, s := range spies {
			require.Equal(t, 1, s.listens())
			require.Zero(t, s.signed())
			require.Greater(t, s.asked(), 3, "it is asked from time to time")
		}
		require.Zero(t, f.waiters())
		by := spies[0].asked()
		close(confirm)
		settled()
		require.LessOrEqual(t, spies[0].asked(), by+1)
		time.Sleep(quorumlockRetryMax)
		require.Equal(t, 3, f.waiters())
		time.Sleep(111 * time.Millisecond)
		require.NoError(t, before.Release(t.Context()))
		_ = waits.has()
	})
}

// quorumlockRetryMax is the default of RetryMax.
const quorumlockRetryMax = 200 * time.Millisecond

// A wake that overtakes the denial, which was sent before on another connection, is not
// lost.
func TestAWakeBeforeItsDenial(t *testing.T) {
	inVirtualTime(t, 3, func(t *testing.T, f *fleet) {
		before := held(t, f.client().RedLock("job"))
		c, spies := f.spied()
		waits := acquiring(t.Context(), t, c.RedLock("job"))
		require.True(t, waits.waits())
		denied, proceed := make(chan struct{}, 3), make(chan struct{})
		for _, s := range spies {
			s.set(func(s *spy) { s.after = func() { denied <- struct{}{}; <-proceed } })
		}
		for range 3 {
			<-denied // and nobody has been told yet
		}
		require.NoError(t, before.Release(t.Context()))
		require.True(t, waits.waits())
		time.Sleep(10 * time.Millisecond)
		close(proceed)
		_ = waits.has()
	})
}
