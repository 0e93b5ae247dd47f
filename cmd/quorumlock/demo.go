package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	// demoPause gives the reader time before each chapter.
	demoPause = 500 * time.Millisecond
	demoLock  = "report"
)

func (a *app) demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the library at work, without any server",
		Long: `Two clients contend for one lock on five nodes in this process, while nodes are stopped,
started, and lose their memory. It takes about twelve seconds. Each line is printed after
the event has happened and was checked. After any unexpected event, the demo reports it
and fails.`,
		Args: arguments(cobra.NoArgs),
	}
	return a.nodeless(c, func(c *cobra.Command, _ []string) error { return a.demo(c.Context()) })
}

func (a *app) demo(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoBound, fmt.Errorf("the demo took longer than %v", demoBound))
	defer cancel()
	s, err := newStage(ctx, a)
	if err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	err = s.attempt(func() {
		for i, c := range chapters {
			if i > 0 {
				receive(s, time.After(demoPause), "the demo goes on")
			}
			s.chapter(c.title)
			c.play(s)
		}
	})
	s.close(ctx)
	if err == nil {
		err = s.attempt(func() { s.expectKeys() }) // no client, no key
	}
	if err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	fmt.Fprintf(s.w, demoSummary, round(s.handOver), round(s.early), len(s.tokens))
	return nil
}

const demoSummary = `
Seen: one holder at a time, two nodes of five lost without a break, the lock handed over in %v,
a lease that was over %v before its keys, when no majority was left to renew it, three nodes of five
that forgot the lock and gave it to no other client, and %d leases whose tokens only grew.
Next: quorumlock run --help, for locks on your own servers; README.md and docs/, for the library.
`

// stage is the state of the demo. Its methods play chapters, and end the attempt if anything unexpected happens.
type stage struct {
	*timeline
	ctx   context.Context //nolint:containedctx // it lives as long as the demo, whose context it is
	nodes []*node.Memory
	a, b  *actor
	// stopped counts the nodes that do not answer.
	stopped int

	// held is the current lease of the lock, and waiting receives the result of B's wait for the next.
	held    *quorumlock.Lease
	waiting <-chan granted

	// tokens are the tokens of the lock's leases, in the order of the grants.
	tokens []uint64

	// Observed times for the closing lines.
	handOver, early time.Duration
}

// granted is the result of B's wait.
type granted struct {
	lease *quorumlock.Lease
	at    time.Time
	err   error
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
	s := &stage{timeline: newTimeline(a.stdout), ctx: ctx}
	nodes := memoryNodes("node", demoNodes)
	for _, n := range nodes {
		s.nodes = append(s.nodes, n.(*node.Memory)) //nolint:forcetypeassert // made so
	}
	cfg := quorumlock.Config{
		Nodes: nodes, TTL: demoTTL, MaxTTL: demoTTL, MaxClockSkew: demoSkew,
		Logger: a.logger(), // nothing unless --verbose: the time line tells it better
	}
	_, err := admin.Init(ctx, cfg)
	if err == nil {
		s.a, err = newActor("A", colourA, s.timeline, cfg)
	}
	if err == nil {
		s.b, err = newActor("B", colourB, s.timeline, cfg)
	}
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

// close ends both clients. Locks on nodes that were down have expired, so an unconfirmed release is no failure.
func (s *stage) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.a.Close(ctx)
	_ = s.b.Close(ctx)
}

// unexpected is the panic of a stage at an expected event that did not happen. It does not leave attempt.
type unexpected struct{ error }

// attempt runs steps, and returns why they ended early. Steps have dozens of checks, so they do not return errors.
func (s *stage) attempt(steps func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(unexpected)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	steps()
	return nil
}

// expect ends the attempt unless ok. The error may be nil.
func (s *stage) expect(what string, ok bool, err error) {
	switch {
	case ok:
	case err == nil:
		panic(unexpected{fmt.Errorf("expected that %s, but it was not so", what)})
	default:
		panic(unexpected{fmt.Errorf("expected that %s, but: %w", what, err)})
	}
}

func receive[T any](s *stage, events <-chan T, what string) (event T) {
	select {
	case event = <-events:
	case <-s.ctx.Done():
		s.expect(what, false, context.Cause(s.ctx))
	}
	return event
}

// eventually polls until a condition holds.
func (s *stage) eventually(what string, is func() bool) {
	for !is() {
		receive(s, time.After(time.Millisecond), what)
	}
}

// expectKeys checks the keys on all nodes. Undos may continue for a moment after a refusal.
func (s *stage) expectKeys(keys ...string) {
	for _, n := range s.nodes {
		s.eventually(fmt.Sprintf("%s holds %q", n.Name(), keys), func() bool { return slices.Equal(n.Keys(), keys) })
	}
}

func (a *actor) tells(format string, args ...any) { a.tell(a.name, a.colour, format, args...) }

func (s *stage) tellNodes(format string, args ...any) { s.tell("nodes", colourNodes, format, args...) }

func (s *stage) names(numbers []int) string {
	var names []string
	for _, n := range numbers {
		names = append(names, s.nodes[n-1].Name())
	}
	return enumerated(names)
}

func backing(lease *quorumlock.Lease) int {
	have, _ := lease.Backing()
	return have
}

// silentNodes returns the nodes that did not answer an operation.
func silentNodes(err error) (names []string) {
	var e *quorumlock.NoQuorumError
	if errors.As(err, &e) {
		for _, n := range e.Nodes {
			names = append(names, n.Node)
		}
	}
	return names
}

// round makes a duration short enough to read.
func round(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// Colours of the actors, as terminals number them.
const (
	colourA     = "1;36" // cyan
	colourB     = "1;33" // yellow
	colourNodes = "1;35" // magenta
)

// timeline prints events with the time since its start and their actor. It is for one goroutine.
type timeline struct {
	w      io.Writer
	began  time.Time
	colour bool
}

func newTimeline(w io.Writer) *timeline {
	return &timeline{w: w, began: time.Now(), colour: wantsColour(w)}
}

func (t *timeline) tell(actor, colour, format string, args ...any) {
	who := painted(fmt.Sprintf("%-5s", actor), colour, t.colour)
	fmt.Fprintf(t.w, "%6.2f s  %s  %s\n", time.Since(t.began).Seconds(), who, fmt.Sprintf(format, args...))
}

func (t *timeline) chapter(title string) {
	fmt.Fprintf(t.w, "\n%s\n", painted(title, "1", t.colour))
}
