package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
)

const (
	demoNodes = 5
	demoTTL   = 2400 * time.Millisecond
	// demoSkew is short, because a recovery takes demoSkew + TTL. One clock serves all nodes and clients of the demo.
	demoSkew = 100 * time.Millisecond
	// demoBound is longer than any step takes on a slow machine.
	demoBound = 30 * time.Second
	// demoPause gives the reader time after each chapter.
	demoPause = 500 * time.Millisecond
	demoLock  = "report"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See the library at work, without any server",
		Long: `Two clients contend for one lock on five nodes in this process, while nodes are stopped,
started, and lose their memory. It takes about twelve seconds. Each line is printed after
the event has happened and was checked. After any unexpected event, the demo reports it
and fails.`,
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.nodes.refuse(c); err != nil {
				return err
			}
			return a.demo(c.Context())
		},
	}
}

func (a *app) demo(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoBound, fmt.Errorf("the demo took longer than %v", demoBound))
	defer cancel()
	s, err := newStage(ctx, a)
	if err != nil {
		return err
	}
	err = s.play(ctx)
	s.close(ctx)
	if err == nil {
		err = s.expectKeys(ctx) // no client, no key
	}
	if err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	s.farewell()
	return nil
}

// stage is the state of the demo.
type stage struct {
	*timeline
	nodes []*node.Memory
	a, b  *actor
	// stopped counts the nodes that do not answer.
	stopped int

	// tokens are the tokens of the lock's leases, in the order of the grants.
	tokens []uint64

	// Observed times for the closing lines.
	handOver, early time.Duration
}

// actor is one client. Its channels receive the events of its hooks.
type actor struct {
	*quorumlock.Client
	*timeline
	name, colour string
	renewed      chan quorumlock.RenewedEvent
	failed       chan quorumlock.RenewalFailedEvent
}

func newStage(ctx context.Context, a *app) (*stage, error) {
	s := &stage{timeline: newTimeline(a.stdout)}
	var nodes []node.Node
	for _, n := range memoryNodes("node", demoNodes) {
		s.nodes = append(s.nodes, n.(*node.Memory)) //nolint:forcetypeassert // made so
		nodes = append(nodes, n)
	}
	cfg := quorumlock.Config{
		Nodes: nodes, TTL: demoTTL, MaxTTL: demoTTL, MaxClockSkew: demoSkew,
		Logger: a.logger(), // nothing unless --verbose: the time line tells it better
	}
	_, err := admin.Init(ctx, cfg)
	if err != nil {
		return nil, unexpected("the new nodes are opened", err)
	}
	if s.a, err = newActor("A", colourA, s.timeline, cfg); err != nil {
		return nil, err
	}
	s.b, err = newActor("B", colourB, s.timeline, cfg)
	return s, err
}

func newActor(name, colour string, t *timeline, cfg quorumlock.Config) (*actor, error) {
	a := &actor{
		timeline: t, name: name, colour: colour,
		// The capacity exceeds the renewals of the demo, because hooks must not block.
		renewed: make(chan quorumlock.RenewedEvent, 1000),
		failed:  make(chan quorumlock.RenewalFailedEvent, 1000),
	}
	cfg.Hooks = quorumlock.Hooks{
		Renewed:       func(e quorumlock.RenewedEvent) { a.renewed <- e },
		RenewalFailed: func(e quorumlock.RenewalFailedEvent) { a.failed <- e },
	}
	var err error
	a.Client, err = quorumlock.New(cfg)
	return a, err
}

// tells prints an action of this actor.
func (a *actor) tells(format string, args ...any) {
	a.tell(a.name, a.colour, format, args...)
}

// tellNodes prints what happens to the nodes.
func (s *stage) tellNodes(format string, args ...any) {
	s.tell("nodes", colourNodes, format, args...)
}

// close ends both clients. Locks on nodes that were down have expired, so an unconfirmed release is no failure.
func (s *stage) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.a.Close(ctx)
	_ = s.b.Close(ctx)
}

// farewell prints the summary, and where to read on.
func (s *stage) farewell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.w, "\nSeen: one holder at a time, two nodes of five lost without a break, the lock handed over in %v,\n", round(s.handOver))
	fmt.Fprintf(s.w, "a lease that was over %v before its keys, when no majority was left to renew it, three nodes of five\n", round(s.early))
	fmt.Fprintf(s.w, "that forgot the lock and gave it to no other client, and %d leases whose tokens only grew.\n", len(s.tokens))
	fmt.Fprint(s.w, "Next: quorumlock run --help, for locks on your own servers; README.md and docs/, for the library.\n")
}

// round makes a duration short enough to read.
func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
