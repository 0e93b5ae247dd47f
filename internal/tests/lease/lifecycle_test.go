package lease_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
	"github.com/quorumlock/quorumlock/quorum"
)

// This test runs in real time, as virtual time does not wait for the garbage collector.
func TestLeakedLeaseIsReleased(t *testing.T) {
	alone := quorumlock.LockOptions{NoHandover: true}
	for name, test := range map[string]struct {
		// acquire drops the lease, and returns its context.
		acquire func(c *quorumlock.Client) (context.Context, error)
		ended   []string
	}{
		"Lease": {func(c *quorumlock.Client) (context.Context, error) {
			lease, err := c.RedLock("job").Acquire(context.Background())
			return lease.Context(), err
		}, []string{"job"}},
		"permits": {func(c *quorumlock.Client) (context.Context, error) {
			lease, err := c.Semaphore("job", 2).Acquire(context.Background(), 2)
			return lease.Context(), err
		}, []string{"job"}},
		"JointLease": {func(c *quorumlock.Client) (context.Context, error) {
			lease, err := quorumlock.Join(c.RedLock("job"), c.RedLock("result").With(alone)).Acquire(context.Background())
			return lease.Context(), err
		}, []string{"job", "result"}},
		"nested JointLease": {func(c *quorumlock.Client) (context.Context, error) {
			outer, err := c.RedLock("job").Acquire(context.Background())
			if err != nil {
				return nil, err
			}
			lease, err := quorumlock.Join(c.RedLock("job"), c.RedLock("result").With(alone)).Acquire(outer.Context())
			return lease.Context(), err
		}, []string{"job", "result"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(t, 3)
			ended := make(chan quorumlock.EndedEvent, 2)
			var log bytes.Buffer // No mutex is needed: the client writes before it calls the hook, and the test reads afterwards.
			client := f.Client(func(c *quorumlock.Config) {
				c.TTL = 3 * time.Second
				c.Hooks.Ended = func(e quorumlock.EndedEvent) { ended <- e }
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			defer func() { require.NoError(t, client.Close(context.Background())) }()

			done := func() <-chan struct{} {
				ctx, err := test.acquire(client)
				require.NoError(t, err)
				child, cancel := context.WithCancel(ctx)
				runtime.GC()
				runtime.GC()
				require.NotErrorIs(t, context.Cause(child), quorumlock.ErrLeaked, "a derived context keeps the lease alive")
				runtime.KeepAlive(child)
				cancel()
				return ctx.Done() // It must close although nothing else is kept.
			}()

			var names []string
			for range test.ended {
				e := collected(t, ended)
				require.ErrorIs(t, e.Err, quorumlock.ErrLeaked)
				names = append(names, e.Names...)
			}
			require.ElementsMatch(t, test.ended, names)
			<-done
			require.NoError(t, client.Close(context.Background()))
			require.Equal(t, len(test.ended), strings.Count(log.String(), "without a Release"))
			require.Zero(t, f.Keys())
		})
	}
}

// collected runs the garbage collector until a lease has ended.
func collected(t *testing.T, ended <-chan quorumlock.EndedEvent) quorumlock.EndedEvent {
	t.Helper()
	collect := time.NewTicker(10 * time.Millisecond)
	defer collect.Stop()
	limit := time.After(20 * time.Second)
	for {
		runtime.GC()
		select {
		case e := <-ended:
			return e
		case <-collect.C:
		case <-limit:
			require.FailNow(t, "a leaked lease is still held")
		}
	}
}

func TestErrorNamesEachNodeAndItsReason(t *testing.T) {
	fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		f.Introduce(client)
		f.Stop(0, 2)
		plant(f, 1)
		_, err := client.RedLock("job").TryAcquire(t.Context())
		// How many nodes had agreed at the decision depends on the order of the answers.
		text := regexp.MustCompile(`[012] of 5`).ReplaceAllString(err.Error(), "N of 5")
		text = regexp.MustCompile(`, and [12] not waited for, as even with them there would be too few`).ReplaceAllString(text, "")
		require.Equal(t, `quorumlock: acquire "job": no quorum: N of 5 nodes agreed, 3 needed (`+
			`n1, n3: acquire: unreachable; `+
			`n2: acquire: a key of another type has this name)`, text, "nodes with the same reason share one entry")
		var noQuorum *quorumlock.NoQuorumError
		require.ErrorAs(t, err, &noQuorum)
		require.Equal(t, 5, noQuorum.Agreed+noQuorum.Pending+len(noQuorum.Nodes))
		require.ErrorIs(t, err, node.ErrUnreachable)
		require.ErrorIs(t, err, node.ErrWrongType)
		require.NotErrorIs(t, err, quorumlock.ErrHeld, "the error is either ErrHeld or ErrNoQuorum")
		var nodeErr *node.Error
		require.ErrorAs(t, err, &nodeErr)
		require.Equal(t, "n1", nodeErr.Node)
	})
}

func TestErrHeldWhileAQuorumAnswers(t *testing.T) {
	// While enough nodes for a quorum answer, the error is ErrHeld and names the holder. This holds
	// even if unreachable nodes and denials together decide the attempt.
	for bad := range 6 {
		fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
			holder := fleet.MustAcquire(t, f.Client().RedLock("job"))
			f.Stop(fleet.FirstNodes(bad)...)
			_, err := f.Client().RedLock("job").TryAcquire(t.Context())
			switch bad {
			case 0, 1, 2:
				var held *quorumlock.HeldError
				require.ErrorAs(t, err, &held)
				require.Equal(t, holder.Owner(), held.Owner)
				require.NotErrorIs(t, err, quorumlock.ErrNoQuorum)
			case 5:
				require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
			default: // The error depends on which node answered first.
				require.Error(t, err)
			}
		})
	}
}

func TestCancelAtEveryInstantOfAnAttempt(t *testing.T) {
	// The context ends before, between and after the votes.
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(t, 5)
		client := f.Client()
		for i := range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for range i % 20 {
					runtime.Gosched()
				}
				cancel()
			}()
			lease, err := client.RedLock("job").Acquire(ctx)
			if err == nil {
				require.NoError(t, lease.Release(t.Context()))
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			f.RequireNoKeys()
			cancel()
		}
	})
}

func TestHugeDurationsDoNotOverflow(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		time.Sleep(time.Second) // At a clock of 0, an overflow would go unnoticed.
		client := f.Client()
		a, err := client.RedLock("a").With(quorumlock.LockOptions{MaxHold: math.MaxInt64}).Acquire(t.Context())
		require.NoError(t, err)
		b, err := client.RedLock("b").Acquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, a.Err())
		require.NoError(t, b.Err())

		_, err = quorumlock.New(quorumlock.Config{Nodes: []node.Node{f.Nodes[0]}, NodeTimeoutMax: 1 << 62})
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = quorumlock.New(quorumlock.Config{Nodes: []node.Node{f.Nodes[0]}, TTL: 1 << 60, MaxTTL: 1 << 60})
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		_, err = quorumlock.New(quorumlock.Config{Nodes: []node.Node{(*memory.Node)(nil)}})
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
	})
}

// Each With adds to the earlier ones: the last setting of an option counts, and a zero changes nothing.
func TestOptionsAccumulate(t *testing.T) {
	type options = quorumlock.LockOptions
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		several := []options{{TTL: 2 * time.Second, Purpose: "first"}, {Fixed: true}, {}, {TTL: time.Second, Rule: quorum.All()}}
		lock, rw, semaphore := client.RedLock("job"), client.RWLock("book"), client.Semaphore("pool", 2)
		for _, o := range several {
			lock, rw, semaphore = lock.With(o), rw.With(o), semaphore.With(o)
		}
		permit, err := semaphore.Acquire(t.Context(), 1)
		require.NoError(t, err)
		for _, lease := range []*quorumlock.Lease{fleet.MustAcquire(t, lock), fleet.MustAcquire(t, rw.Read()), permit} {
			require.Equal(t, "first", quorumlock.ParseOwner(lease.Owner()).Purpose)
			require.Less(t, lease.Remaining(), time.Second)
			require.Greater(t, lease.Remaining(), 900*time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		f.RequireNoKeys()
		f.Stop(0)
		_, err = lock.TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum, "the rule needs all nodes")
		_, err = client.RedLock("job").With(options{TTL: time.Hour}).With(options{TTL: time.Second}).With(options{MaxHold: -1}).TryAcquire(t.Context())
		var invalid *quorumlock.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Len(t, invalid.Problems, 2, "each problem counts once, and no later option hides it: %v", invalid)
	})
}

// counting is a context that counts the calls of Value that reach it.
type counting struct {
	context.Context
	n *int
}

func (c counting) Value(key any) any {
	*c.n++
	return c.Context.Value(key)
}

func TestNestedContextsLookUpValuesOnce(t *testing.T) {
	fleet.InVirtualTime(t, 1, func(t *testing.T, f *fleet.Fleet) {
		client, n := f.Client(), 0
		var down func(ctx context.Context, depth int) error
		down = func(ctx context.Context, depth int) error {
			if depth == 12 {
				n = 0
				ctx.Value("nothing")
				require.Equal(t, 1, n)
				return nil
			}
			return client.RedLock(strconv.Itoa(depth)).Do(ctx, func(ctx context.Context) error { return down(ctx, depth+1) })
		}
		require.NoError(t, down(counting{t.Context(), &n}, 0))
	})
}

func TestCloseAfterNodesAreClosed(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		_ = fleet.MustAcquire(t, client.RedLock("job"))
		for _, nd := range f.Nodes {
			require.NoError(t, nd.Close())
		}
		require.Error(t, client.Close(t.Context()), "no release was confirmed")
	})
}

// Another client holds one node during its attempt, before the other nodes deny it.
func TestTransientDenialDoesNotEndLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		lease, err := f.Client().MultiLock("job").TryAcquire(t.Context())
		require.NoError(t, err)
		f.Free("job", lease.Owner(), 0)
		f.Take("job", "other", 0)
		require.ErrorIs(t, lease.Extend(t.Context()), quorumlock.ErrNoQuorum)
		require.NoError(t, lease.Err())
		have, _ := lease.Backing()
		require.Equal(t, 2, have)
		f.Free("job", "other", 0)
		require.NoError(t, lease.Extend(t.Context()))
	})
}

func TestForceReleaseOfLockWithLongTTL(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		long := func(c *quorumlock.Config) { c.TTL, c.MaxTTL = time.Minute, time.Minute }
		lease, err := f.Client(long).RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		fleet.Settle()
		_, err = f.Client().RedLock("job").ForceRelease(t.Context()) // The MaxTTL of this client is 10 s.
		require.NoError(t, err)
		<-lease.Context().Done()
		require.ErrorContains(t, lease.Err(), "by force")
		time.Sleep(2 * time.Minute)
		require.Zero(t, f.Keys())
	})
}
