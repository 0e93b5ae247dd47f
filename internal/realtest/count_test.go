package realtest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// Each uncontended operation costs one script on each node, also with several names or permits. A server must load each
// script once, which costs a second one. These counts do not depend on the machine.
func TestRealCommandsAreCounted(t *testing.T) {
	type call struct {
		what string
		does func(ctx context.Context) error
		// loads is set for the first use of a script.
		loads bool
	}
	// leased are the calls from the acquisition of a lease to its release.
	leased := func(loads bool, acquire func(context.Context) (*quorumlock.Lease, error)) []call {
		var lease *quorumlock.Lease
		return []call{
			{"acquire", func(ctx context.Context) (err error) { lease, err = acquire(ctx); return err }, loads},
			{"extend", func(ctx context.Context) error { return lease.Extend(ctx) }, loads},
			{"release", func(ctx context.Context) error { return lease.Release(ctx) }, loads},
		}
	}
	for kind, calls := range map[string]func(c *quorumlock.Client, loads bool) []call{
		"lock": func(c *quorumlock.Client, loads bool) []call { return leased(loads, c.RedLock("a").Acquire) },
		"ten names": func(c *quorumlock.Client, loads bool) []call {
			return leased(loads, c.MultiLock("a", "b", "c", "d", "e", "f", "g", "h", "i", "j").Acquire)
		},
		"64 permits": func(c *quorumlock.Client, loads bool) []call {
			s := c.Semaphore("a", 100)
			return leased(loads, func(ctx context.Context) (*quorumlock.Lease, error) { return s.Acquire(ctx, 64) })
		},
		"readers and writers": func(c *quorumlock.Client, loads bool) []call {
			rw := c.RWLock("a")
			first, second := leased(loads, rw.Read().Acquire), leased(false, rw.Read().Acquire)
			var lease *quorumlock.Lease
			return []call{
				first[0], second[0], first[1], first[2], second[2],
				{"write", func(ctx context.Context) (err error) { lease, err = rw.Write().Acquire(ctx); return err }, loads},
				{"downgrade", func(ctx context.Context) error { return lease.Downgrade(ctx) }, false},
				{"release of the reader", func(ctx context.Context) error { return lease.Release(ctx) }, false},
			}
		},
		"latch": func(c *quorumlock.Client, loads bool) []call {
			l := c.Latch("a")
			return []call{
				{"set", func(ctx context.Context) error { return l.Set(ctx, 2) }, loads},
				{"count down", func(ctx context.Context) error { return l.CountDown(ctx, "x") }, false},
				{"count down", func(ctx context.Context) error { return l.CountDown(ctx, "y") }, false},
				{"count", func(ctx context.Context) error { _, err := l.Count(ctx); return err }, false},
				{"await", func(ctx context.Context) error { return l.Await(ctx) }, false},
				{"delete", func(ctx context.Context) error { return l.Delete(ctx) }, loads},
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			c := startCluster(t, 3)
			client := c.client(undisturbed)
			require.NoError(t, client.Connect(t.Context()))
			// The list of nodes is told twice, as the first answers bring the nodes' ids. Its script is loaded first.
			ran := 3
			for i := range c.servers {
				eventually(t, soon, func() bool { return c.calls(i) == ran }, "node %d knows the list of nodes", i)
			}
			for _, first := range []bool{true, false} {
				for _, call := range calls(client, first) {
					require.NoError(t, call.does(withDeadline(t)), call.what)
					ran++
					if call.loads {
						ran++
					}
					for i := range c.servers {
						eventually(t, soon, func() bool { return c.calls(i) >= ran }, "node %[2]d ran the script for %[1]s", call.what, i)
						require.Equal(t, ran, c.calls(i), "scripts on node %d up to %s", i, call.what)
					}
				}
			}
		})
	}
}
