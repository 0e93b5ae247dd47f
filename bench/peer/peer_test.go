package peer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// What is measured must be a lock: while one client has it, another has not.
func TestEveryPeerExcludes(t *testing.T) {
	for _, p := range All() {
		if p.Kind == Apart {
			continue // needs a server of its own, which few have
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			o := Options{TTL: 5 * time.Second, Contenders: 2}
			for _, s := range redisproc.StartN(t, 3) {
				o.Addresses = append(o.Addresses, s.Addr())
			}
			if p.Marked {
				_, err := admin.Init(t.Context(), Config(o))
				require.NoError(t, err)
			}
			mine, other := open(t, p, o).Lock("a"), open(t, p, o).Lock("a")

			require.NoError(t, mine.Acquire(t.Context()))
			if c, can := mine.(Checker); can {
				assert.True(t, c.Valid())
			}
			brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			require.Error(t, other.Acquire(brief), "somebody has it")
			require.NoError(t, mine.Release(t.Context()))
			require.Eventually(t, func() bool { return other.Acquire(t.Context()) == nil }, 5*time.Second, 10*time.Millisecond)
			require.NoError(t, other.Release(t.Context()))
		})
	}
}

func open(t *testing.T, p Peer, o Options) Client {
	t.Helper()
	c, err := p.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return c
}

func TestBatchIsAllOfItsLocks(t *testing.T) {
	var o Options
	o.TTL = 5 * time.Second
	servers := redisproc.StartN(t, 3)
	for _, s := range servers {
		o.Addresses = append(o.Addresses, s.Addr())
	}
	c := open(t, pipe, o)
	batch := c.(Batcher).Batch([]string{"a", "b", "c"})
	for range 3 {
		require.NoError(t, batch.Acquire(t.Context()))
		require.NoError(t, batch.Release(t.Context()))
	}
	require.NoError(t, batch.Acquire(t.Context()))
	require.Eventually(t, func() bool { return len(servers[0].Keys()) == 3 }, 5*time.Second, 10*time.Millisecond)
}

func TestMajority(t *testing.T) {
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
		require.Equal(t, c.want, majority(answers, 5))
		assert.Empty(t, answers, "nothing more is needed, and nothing less suffices")
	}
}
