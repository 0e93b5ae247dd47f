package quorumlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// odd says of each holder that its lock is over, or something else that is odd.
type odd struct {
	*spy
	ttl time.Duration
}

func (o *odd) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	o.spy.Do(ctx, ops, replies)
	time.Sleep(200 * time.Microsecond)
	for i := range replies {
		if replies[i].Outcome == node.Denied {
			replies[i].Holder.TTL = o.ttl
		}
	}
}

func TestWaitingForOddTTLs(t *testing.T) {
	for _, ttl := range []time.Duration{0, -1, -2, time.Millisecond, 1 << 62} {
		f := newFleet(t, 3)
		f.clock = clock.Process()
		lease, err := f.client().RedLock("job").TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spies := make([]*spy, 3)
		c := f.client(func(cfg *quorumlock.Config) {
			for i, nd := range f.nodes {
				spies[i] = &spy{Memory: nd}
				cfg.Nodes[i] = &odd{spies[i], ttl}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err = c.RedLock("job").Acquire(ctx)
		cancel()
		_ = lease.Token()
		t.Logf("ttl %v: %d acquisitions per second and node: %v", ttl, total(spies)/3/2, err)
	}
}
