package peer

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// patience bounds every wait of a test.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestEveryPeerExcludes: each peer must be a lock. While one client holds it, another cannot.
func TestEveryPeerExcludes(t *testing.T) {
	for _, p := range All() {
		shared := []string{"semaphore", "rwlock-readers", "full-16", "full-128", "full-1024"}
		if p.Open == nil || slices.Contains(shared, p.Name) {
			continue // it needs a program of its own, which few have
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			o := started(t, p, 2)
			mine, other := open(t, p, o).Lock("a", 0), open(t, p, o).Lock("a", 0)

			require.NoError(t, mine.Acquire(t.Context()))
			if c, can := mine.(Checker); can {
				assert.True(t, c.Valid())
			}
			brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			require.Error(t, other.Acquire(brief), "another client holds it")
			require.NoError(t, mine.Release(t.Context()))
			require.Eventually(t, func() bool { return other.Acquire(t.Context()) == nil }, patience, 10*time.Millisecond)
			require.NoError(t, other.Release(t.Context()))
		})
	}
}

// started returns options for clients of a peer whose nodes are ready.
func started(t *testing.T, p Peer, contenders int) Options {
	t.Helper()
	// No lock expires during a test, and every node answers in time on a busy machine.
	o := Options{TTL: time.Minute, Contenders: contenders, NodeTimeout: 10 * time.Second}
	for _, s := range redisproc.StartN(t, 3) {
		o.Addresses = append(o.Addresses, s.Addr())
	}
	if p.Ours {
		_, err := admin.Init(t.Context(), Config(o))
		require.NoError(t, err)
	}
	return o
}

func TestSemaphoreLimitsItsPermits(t *testing.T) {
	o := started(t, semaphore, Permits+1)
	c := open(t, semaphore, o)
	for range Permits {
		l := c.Lock("a", NoCaller)
		require.NoError(t, l.Acquire(t.Context()))
		defer func() { require.NoError(t, l.Release(context.Background())) }()
	}
	brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(t, c.Lock("a", NoCaller).Acquire(brief), "there are no more")
}

func TestFullSemaphoreDenies(t *testing.T) {
	p := full(2 * quorumlock.MaxNames)
	c := open(t, p, started(t, p, 2))
	holder, other := c.Lock("a", NoCaller), c.Lock("a", 0).(Trier)
	require.NoError(t, holder.Acquire(t.Context()))
	denied, err := other.Try(t.Context())
	require.NoError(t, err)
	assert.True(t, denied)
	require.NoError(t, holder.Release(t.Context()))
	denied, err = other.Try(t.Context())
	require.NoError(t, err)
	assert.False(t, denied)
}

func open(t *testing.T, p Peer, o Options) Client {
	t.Helper()
	c, err := p.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

// TestQueueSkipsAWaiterThatLeft: the turn passes by a waiter that has left, to the next one in another client.
func TestQueueSkipsAWaiterThatLeft(t *testing.T) {
	servers := redisproc.StartN(t, 3)
	o := Options{TTL: time.Minute, Contenders: 3}
	for _, s := range servers {
		o.Addresses = append(o.Addresses, s.Addr())
	}
	waiting := func(n string) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, err := servers[0].Do(t.Context(), "LLEN", "a:queue")
			return err == nil && got == n
		}, patience, time.Millisecond)
	}
	holder, leaver, next := open(t, queue, o).Lock("a", 0), open(t, queue, o).Lock("a", 1), open(t, queue, o).Lock("a", 2)
	require.NoError(t, holder.Acquire(t.Context()))
	ctx, leave := context.WithCancel(t.Context())
	left, got := make(chan error, 1), make(chan error, 1)
	go func() { left <- leaver.Acquire(ctx) }()
	waiting("2")
	go func() { got <- next.Acquire(context.Background()) }()
	waiting("3")
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	waiting("2")
	assert.Empty(t, got, "the lock is still held")
	require.NoError(t, holder.Release(t.Context()))
	require.NoError(t, <-got)
	require.NoError(t, next.Release(t.Context()))
	waiting("0")
	for _, s := range servers {
		require.Eventually(t, func() bool { return len(s.Keys()) == 0 }, patience, time.Millisecond)
	}
}

func TestEnoughAnswersDecide(t *testing.T) {
	yes, no, broken := answer{yes: true}, answer{}, answer{err: assert.AnError}
	for _, c := range []struct {
		answers []answer
		want    error
	}{
		{[]answer{yes, yes, yes}, nil},
		{[]answer{no, yes, broken, yes, yes}, nil},
		{[]answer{no, yes, no, no}, errDenied},
		{[]answer{no, broken, broken}, assert.AnError},
	} {
		answers := make(chan answer, len(c.answers))
		for _, a := range c.answers {
			answers <- a
		}
		require.Equal(t, c.want, decide(answers, 5, 3))
		assert.Empty(t, answers, "nothing more is needed, and nothing less suffices")
	}
}
