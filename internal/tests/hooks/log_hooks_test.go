package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// lines is a slog handler that keeps the text of each record, and its context.
type lines struct {
	texts    []string
	contexts []context.Context
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lines) WithGroup(string) slog.Handler { return l }

func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", r.Level, strings.TrimPrefix(r.Message, "quorumlock: "))
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	l.texts, l.contexts = append(l.texts, b.String()), append(l.contexts, ctx)
	return nil
}

func TestLogHooksWriteEveryEvent(t *testing.T) {
	var l lines
	h := quorumlock.LogHooks(slog.New(&l))
	names, at := []string{"job"}, time.Unix(0, 0).UTC()
	failure := errors.New("no")
	ctx := context.WithValue(t.Context(), traceKey{}, "mine")
	for _, c := range []struct {
		tell func()
		want string
	}{
		{
			func() {
				h.Acquired(quorumlock.AcquiredEvent{Names: names, Owner: "o", Token: 7, Attempts: 2, Waited: time.Second})
			},
			"DEBUG lease granted names=[job] owner=o token=7 attempts=2 waited=1s reads=false handed_over=false",
		},
		{func() { h.Acquisition(quorumlock.AcquisitionEvent{Context: ctx, Names: names}) }, ""},
		{
			func() {
				h.Acquisition(quorumlock.AcquisitionEvent{Context: ctx, Names: names, Attempts: 3, Took: time.Second, Err: failure})
			},
			"DEBUG no lease names=[job] attempts=3 took=1s reads=false err=no",
		},
		{
			func() {
				h.AttemptFailed(quorumlock.AttemptFailedEvent{Names: names, Attempt: 1, Err: quorumlock.ErrHeld})
			},
			"DEBUG attempt failed names=[job] attempt=1 err=quorumlock: held by another",
		},
		{
			func() {
				h.AttemptFailed(quorumlock.AttemptFailedEvent{Names: names, Attempt: 1, Err: quorumlock.ErrNoQuorum})
			},
			"WARN attempt failed names=[job] attempt=1 err=quorumlock: no quorum",
		},
		{
			func() { h.Renewed(quorumlock.RenewalEvent{Names: names, Owner: "o", Remaining: time.Second}) },
			"DEBUG lease renewed names=[job] owner=o remaining=1s",
		},
		{
			func() {
				h.RenewalFailed(quorumlock.RenewalEvent{Names: names, Owner: "o", Remaining: time.Second, Err: failure})
			},
			"WARN renewal failed names=[job] owner=o remaining=1s err=no",
		},
		{
			func() { h.BackingChanged(quorumlock.BackingEvent{Names: names, Owner: "o", Have: 2, Want: 3, Need: 2}) },
			"WARN backing changed names=[job] owner=o have=2 want=3 need=2",
		},
		{
			func() { h.BackingChanged(quorumlock.BackingEvent{Names: names, Owner: "o", Have: 3, Want: 3, Need: 2}) },
			"DEBUG backing changed names=[job] owner=o have=3 want=3 need=2",
		},
		{
			func() {
				h.Ended(quorumlock.EndedEvent{Names: names, Owner: "o", Token: 7, Held: time.Second, HandedOver: true, Err: failure})
			},
			"DEBUG lease ended names=[job] owner=o token=7 held=1s handed_over=true err=no",
		},
		{
			func() {
				h.Latch(quorumlock.LatchEvent{Op: "count down", Name: "l", ID: "i", Rounds: 1, Took: time.Second})
			},
			"DEBUG latch op=count down name=l id=i rounds=1 took=1s err=<nil>",
		},
		{
			func() { h.Latch(quorumlock.LatchEvent{Op: "set latch", Name: "l", Err: quorumlock.ErrLatchSet}) },
			"WARN latch op=set latch name=l id= rounds=0 took=0s err=quorumlock: latch set to another number",
		},
		{func() { h.NodeDown("n1", failure) }, "DEBUG node failed node=n1 err=no"},
		{func() { h.NodeUp("n1") }, "DEBUG node is in use again node=n1"},
		{
			func() {
				h.NodeRecovering(quorumlock.NodeRecoveringEvent{Node: "n1", Since: at, Until: at, HadMarker: true})
			},
			"DEBUG node recovers node=n1 since=1970-01-01 00:00:00 +0000 UTC until=1970-01-01 00:00:00 +0000 UTC had_marker=true",
		},
	} {
		l = lines{}
		c.tell()
		require.Equal(t, c.want, strings.Join(l.texts, "\n"))
		if strings.Contains(c.want, "no lease") {
			require.Equal(t, []context.Context{ctx}, l.contexts, "the record has the context of the call")
		}
	}
}

// A client and its LogHooks use the same logger. Each warning is logged once.
func TestLogHooksDoNotRepeatClientWarnings(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var l lines
		logger := slog.New(&l)
		client := f.Client(func(c *quorumlock.Config) { c.Logger, c.Hooks = logger, quorumlock.LogHooks(logger) })
		lease, err := client.RedLock("job").Acquire(t.Context())
		require.NoError(t, err)
		f.Stop(0, 1)
		<-lease.Context().Done()
		require.ErrorIs(t, lease.Err(), quorumlock.ErrLost)
		fleet.Settle()
		told := make(map[string]int)
		for _, text := range l.texts {
			for _, what := range []string{"node failed", "lease ended", "renewal failed"} {
				if strings.HasPrefix(text, "WARN "+what) {
					told[what]++
				}
			}
		}
		require.Equal(t, 1, told["lease ended"])
		require.Equal(t, 2, told["node failed"])
		require.Positive(t, told["renewal failed"])
	})
}

// refusingNode is a node that answers each operation and each probe with a refusal while refuses is set.
type refusingNode struct {
	node.Node
	refuses atomic.Bool
}

func (n *refusingNode) refusal() error {
	return &node.Error{Node: n.Name(), Reason: node.ErrMisconfigured, Err: errors.New("it evicts keys")}
}

func (n *refusingNode) Do(ctx context.Context, ops []wire.Op, replies []wire.Reply) {
	n.Node.Do(ctx, ops, replies)
	if n.refuses.Load() {
		for i := range replies {
			replies[i] = wire.Reply{Err: n.refusal()}
		}
	}
}

func (n *refusingNode) Probe(ctx context.Context) error {
	if n.refuses.Load() {
		return n.refusal()
	}
	return n.Node.Probe(ctx)
}

// The log lines about a node are true in each case: a server that comes back with its data, as after a restart from
// disk, a failover, or when its first replica attaches; one that comes back empty; one that answers, but refuses.
func TestLogLinesOfNodeEvents(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		var l lines
		refusing := &refusingNode{Node: f.Nodes[2]}
		client := f.Client(func(cfg *quorumlock.Config) {
			cfg.Logger = slog.New(&l)
			cfg.Nodes[2] = refusing
		})
		use := func() {
			t.Helper()
			lease, err := client.RedLock("job").TryAcquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release(t.Context()))
			fleet.Settle()
		}
		use()
		for _, c := range []struct {
			name  string
			event func()
			line  string
			end   func()
			last  string
		}{
			{
				"it comes back with its data", func() { f.Nodes[0].Save(); f.Nodes[0].Crash() },
				"node recovers: it may have forgotten locks; holders keep theirs, and it grants no new ones until the recovery ends, had_marker=true",
				func() { time.Sleep(fleet.RecoveryTime) }, "node has recovered: it grants new locks again",
			},
			{
				"it comes back empty", func() { f.Nodes[0].Flush() },
				"node recovers: it may have forgotten locks; holders keep theirs, and it grants no new ones until the recovery ends, had_marker=false",
				func() { time.Sleep(fleet.RecoveryTime) }, "node has recovered: it grants new locks again",
			},
			{
				"it refuses", func() { refusing.refuses.Store(true) },
				"node failed: it gets only probes until one succeeds",
				func() { refusing.refuses.Store(false); time.Sleep(time.Second) }, "node is in use again: a probe succeeded",
			},
		} {
			l.texts = nil
			c.event()
			use()
			require.Len(t, l.texts, 1, c.name)
			message, attrs, _ := strings.Cut(l.texts[0], " node=")
			if _, had, found := strings.Cut(attrs, "had_marker="); found {
				message += ", had_marker=" + had
			}
			require.Equal(t, "WARN "+c.line, message, c.name)
			c.end()
			use()
			use() // the first answer may come after the decision
			require.Len(t, l.texts, 2, c.name)
			require.Contains(t, l.texts[1], "INFO "+c.last+" node=", c.name)
		}
	})
}
