package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// unwritable answers every record with an error.
type unwritable struct {
	node.Node
	reason error
}

func (u unwritable) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	u.Node.Do(ctx, ops, replies)
	for i, op := range ops {
		if op.Kind == wire.Once && op.Owner != "" {
			replies[i] = wire.Reply{Err: &node.Error{Node: u.Name(), Op: op.Kind.String(), Reason: u.reason, Err: errors.New("no")}}
		}
	}
}

// Nodes that refuse the record, and answer everything else, do not keep the caller.
func TestRefusedRecordEnds(t *testing.T) {
	for _, reason := range []error{node.ErrAuth, node.ErrWrongType, node.ErrRejected} {
		t.Run(reason.Error(), func(t *testing.T) {
			fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
				client := f.Client(func(cfg *quorumlock.Config) {
					for i, nd := range cfg.Nodes {
						cfg.Nodes[i] = unwritable{nd, reason}
					}
				})
				over := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { over <- nightly(client).Do(ctx, succeeds) }()
				select {
				case err := <-over:
					require.ErrorIs(t, err, quorumlock.ErrUnrecorded)
					require.ErrorIs(t, err, reason)
					require.Equal(t, reason == node.ErrRejected, ctx.Err() != nil, "what stays refused is not tried until the end") //nolint:errorlint // a reason is never wrapped
				case <-time.After(5 * time.Minute):
					t.Error("Do has not returned, and its context ended long ago")
					_ = client.Close(context.Background())
					require.Error(t, <-over)
				}
			})
		})
	}
}

// In its last millisecond, a record has no time left, and says who did the work all the same.
func TestRecordInItsLastMillisecond(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client(func(cfg *quorumlock.Config) { cfg.Holder = "web-1" })
		require.NoError(t, nightly(client).Do(t.Context(), succeeds))
		time.Sleep(window - time.Millisecond)
		for range 40 {
			err := nightly(client).Check(t.Context())
			if err == nil {
				return
			}
			done := isDone(t, err)
			require.Equal(t, "web-1", quorumlock.ParseOwner(done.Owner).Holder, "left %v", done.Left)
			require.NotEqual(t, int64(0), done.At.UnixMilli())
			time.Sleep(100 * time.Microsecond)
		}
		t.Error("the record does not end")
	})
}

// Two records on one node each are no majority of the one that lives longer: once a caller has told of it, no later one
// may miss it.
func TestRecordsOfDifferentWorkDoNotAddUp(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		unrecorded := func(down, late []int) {
			f.Stop(down...)
			require.ErrorIs(t, nightly(f.Client()).Do(t.Context(), func(context.Context) error {
				f.Stop(late...)
				return nil
			}), quorumlock.ErrUnrecorded)
			f.Start(append(down, late...)...)
		}
		unrecorded(nil, []int{1, 2}) // on 0
		time.Sleep(window / 2)
		unrecorded([]int{0}, []int{2}) // on 1
		f.Stop(2)
		done := isDone(t, nightly(f.Client()).Check(t.Context()))
		f.Start(2)
		time.Sleep(3 * window / 4) // after the end of the first record
		require.Less(t, 3*window/4, done.Left)
		f.Stop(1)
		_ = isDone(t, nightly(f.Client()).Do(t.Context(), neverRuns(t)))
	})
}

// Readers hold a lock together, so none of them does the work alone.
func TestRecordNeedsTheLockAlone(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		lease := fleet.MustAcquire(t, client.RWLock("nightly").Read())
		require.ErrorIs(t, nightly(client).Record(t.Context(), lease), quorumlock.ErrInvalid)
	})
}

// A caller that hears that a node has forgotten the record gives it back, although a majority has it: then the loss of
// another node is no matter.
func TestRecordIsGivenBackToOneNode(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, spies := f.SpiedClient()
		for _, s := range spies[1:] {
			s.Way = time.Millisecond // node 0 answers first
		}
		require.NoError(t, nightly(client).Do(t.Context(), succeeds))
		for _, i := range []int{0, 1} {
			f.Nodes[i].Flush()
			time.Sleep(2 * f.Limits.Recovery())
			if i == 0 {
				_ = isDone(t, nightly(client).Do(t.Context(), neverRuns(t)))
			}
		}
		f.Stop(2)
		_ = isDone(t, nightly(client).Do(t.Context(), neverRuns(t)))
	})
}

// Nodes that take no record for now do not keep a caller whose context does not end from the record later.
func TestRecordIsTriedAgain(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, wires := f.SpiedClient()
		require.NoError(t, nightly(client).Do(t.Context(), func(context.Context) error {
			wires[1].Severed.Store(true)
			wires[2].Severed.Store(true)
			time.AfterFunc(2*time.Second, func() { wires[1].Severed.Store(false) })
			return nil
		}))
		_ = isDone(t, nightly(client).Do(t.Context(), neverRuns(t)))
	})
}

// The record goes to as many nodes as the rule of the lock needs. On all of three, it survives the loss of one of them.
func TestRecordFollowsTheRuleOfTheLock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client := f.Client()
		work := client.Once("nightly", quorumlock.OnceOptions{Window: window, Lock: quorumlock.LockOptions{Rule: quorum.All()}})
		require.NoError(t, work.Do(t.Context(), func(context.Context) error {
			f.Stop(2)
			time.AfterFunc(time.Second, func() { f.Start(2) })
			return nil
		}))
		f.Start(2)
		time.Sleep(time.Second)
		f.Nodes[0].Flush()
		fleet.AcquireAndRelease(t, client.RedLock("other")) // so that the recovery begins
		time.Sleep(2 * f.Limits.Recovery())
		f.Stop(1)
		_ = isDone(t, work.Check(t.Context()))
	})
}

// Callers that give up before their question is on the wire ask no node, so they do not delay the next caller.
func TestAbandonedQuestionsAreNeverSent(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		client, spies := f.SpiedClient()
		f.Introduce(client)
		var asked atomic.Int64
		pass := make(chan struct{})
		for _, s := range spies {
			s.Before = func(ops []wire.Op) {
				for _, op := range ops {
					if strings.HasPrefix(op.Names[0], "abandoned") {
						asked.Add(1)
					}
				}
				<-pass
			}
		}
		first := fleet.StartAcquire(t.Context(), t, client.RedLock("first"))
		fleet.Settle()
		ctx, giveUp := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 1000 {
			work := client.Once(fmt.Sprint("abandoned", i), quorumlock.OnceOptions{Window: window})
			callers.Go(func() { assert.ErrorIs(t, work.Do(ctx, neverRuns(t)), context.Canceled) })
		}
		fleet.Settle()
		giveUp()
		callers.Wait()
		close(pass)
		require.NoError(t, first.Has().Release(t.Context()))
		fleet.Settle()
		require.Zero(t, asked.Load())
	})
}

// A process that stands still while it asks whether the work is done must not begin when its lease has ended meanwhile: no
// timer may have fired yet.
func TestWorkDoesNotBeginBehindTheEndOfItsLease(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		stalled := testkit.NewSkewed(f.Clock, 1)
		client, spies := f.SpiedClient(func(cfg *quorumlock.Config) { cfg.Clock = stalled })
		var stall sync.Once
		for _, s := range spies {
			var asked atomic.Int64
			s.Before = func(ops []wire.Op) {
				if ops[0].Kind == wire.Once && asked.Add(1) == 2 {
					stall.Do(func() { stalled.Jump(time.Minute) })
				}
			}
		}
		require.ErrorIs(t, nightly(client).Do(t.Context(), neverRuns(t)), quorumlock.ErrLost)
	})
}

// A caller that finds the work done under its lock has not worked, so the lock is free at once, whatever its MinHold.
func TestCallersThatFindTheWorkDoneKeepNoLock(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		const callers, hold = 5, 9 * time.Second
		began := f.Clock.Now()
		var all sync.WaitGroup
		for range callers {
			work := f.Client().Once("nightly", quorumlock.OnceOptions{Window: window, Lock: quorumlock.LockOptions{MinHold: hold}})
			all.Go(func() {
				if err := work.Do(t.Context(), succeeds); err != nil {
					assert.ErrorIs(t, err, quorumlock.ErrDone)
				}
			})
		}
		all.Wait()
		require.Less(t, f.Clock.Now()-began, 2*hold)
	})
}
