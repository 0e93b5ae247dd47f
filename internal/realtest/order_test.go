package realtest_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// gatedProbe is a node that can be down. A probe of it waits until the test lets it through.
type gatedProbe struct {
	node.Node
	down    atomic.Bool
	probing chan struct{}
	through chan struct{}
}

func (r *gatedProbe) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	if !r.down.Load() {
		r.Node.Do(ctx, ops, replies)
		return
	}
	for i := range ops {
		replies[i] = node.Reply{Err: &node.Error{Node: r.Name(), Op: ops[i].Kind, Reason: node.ErrUnreachable}, Unsent: true}
	}
}

func (r *gatedProbe) Probe(ctx context.Context) error {
	select {
	case r.probing <- struct{}{}:
	default: // A probe was noted already.
	}
	<-r.through
	return r.Node.Probe(ctx)
}

// An acquisition for a returning node waits for the probe. The release of the same lease must not overtake
// it there.
func TestRealReleaseDoesNotOvertakeAcquireOnReturningNode(t *testing.T) {
	for what, lock := range map[string]quorumlock.LockOptions{
		"an acquisition": {},
		"a renewal":      {Fixed: true},
	} {
		t.Run(what, func(t *testing.T) {
			c := startCluster(t, 5)
			slow := &gatedProbe{probing: make(chan struct{}, 1), through: make(chan struct{})}
			client := newClient(t, func(cfg *quorumlock.Config) {
				cfg.NodeTimeoutMin = quorumlock.DefaultTTL / 4 // The probe must not time out.
				cfg.NodeTimeoutMax = cfg.NodeTimeoutMin
				for i, addr := range c.addresses() {
					nd, err := node.OpenRedis(addr)
					require.NoError(t, err)
					t.Cleanup(func() { _ = nd.Close() })
					cfg.Nodes = append(cfg.Nodes, nd)
					if i == 4 {
						slow.Node = nd
						cfg.Nodes[i] = slow
					}
				}
			})
			letThrough := sync.OnceFunc(func() { close(slow.through) })
			t.Cleanup(letThrough) // This ends the probe if the test fails.
			slow.down.Store(true)
			job := client.RedLock("job").With(lock)
			require.NoError(t, acquire(t, job).Release(t.Context()), "four of five nodes are enough")

			// A further operation makes the client probe the node.
			var lease *quorumlock.Lease
			probing := func() bool {
				if lease != nil && !lock.Fixed {
					require.NoError(t, lease.Release(t.Context()))
					lease = nil
				}
				if lease == nil {
					lease = acquire(t, job)
				} else {
					require.NoError(t, lease.Extend(t.Context()))
				}
				select {
				case <-slow.probing:
					return true
				default:
					return false
				}
			}
			eventually(t, soon, probing, "the client probes the node")
			require.NoError(t, lease.Release(t.Context()))
			slow.down.Store(false)
			before := c.calls(4)
			letThrough()
			eventually(t, soon, func() bool { return c.calls(4) >= before+2 }, "the node has run the operations that waited for it")
			c.noKeys()
		})
	}
}
