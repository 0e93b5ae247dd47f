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

// reluctant is a node that can be down and comes back late. Its probe waits until the test lets it
// through.
type reluctant struct {
	node.Node
	down    atomic.Bool
	probing chan struct{}
	through chan struct{}
}

func (r *reluctant) Do(ctx context.Context, ops []node.Op, replies []node.Reply) {
	if !r.down.Load() {
		r.Node.Do(ctx, ops, replies)
		return
	}
	for i := range ops {
		replies[i] = node.Reply{Err: &node.Error{Node: r.Name(), Op: ops[i].Kind, Reason: node.ErrUnreachable}, Unsent: true}
	}
}

func (r *reluctant) Probe(ctx context.Context) error {
	select {
	case r.probing <- struct{}{}:
	default: // that there was one is known already
	}
	<-r.through
	return r.Node.Probe(ctx)
}

// A command to a returning node waits for the probe. The release of the same lease must not
// overtake it there.
func TestRealReleaseDoesNotOvertakeAtAReturningNode(t *testing.T) {
	for what, lock := range map[string]quorumlock.LockOptions{
		"an acquisition": {},
		"a renewal":      {Fixed: true},
	} {
		t.Run(what, func(t *testing.T) {
			c := startCluster(t, 5)
			slow := &reluctant{probing: make(chan struct{}, 1), through: make(chan struct{})}
			client := newClient(t, func(cfg *quorumlock.Config) {
				cfg.NodeTimeoutMin = quorumlock.DefaultTTL / 4 // the probe is not to be overdue
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
			t.Cleanup(letThrough) // else nothing would end the probe of a test that has failed
			slow.down.Store(true)
			job := client.RedLock("job").With(lock)
			require.NoError(t, acquire(t, job).Release(t.Context()), "with four of five")

			// An operation eventually makes the client probe the node.
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
			eventually(t, soon, probing, "the node is probed")
			require.NoError(t, lease.Release(t.Context()))
			slow.down.Store(false)
			before := c.calls(4)
			letThrough()
			eventually(t, soon, func() bool { return c.calls(4) >= before+2 }, "the node has run what waited for it")
			c.noKeys()
		})
	}
}
