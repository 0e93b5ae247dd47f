// Package demo plays the library without a server. Each line is printed after the event has happened and was checked.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/node/memory"
)

const (
	total = 5
	ttl   = 2400 * time.Millisecond
	// skew is short, because a recovery takes skew + TTL. One clock serves all nodes and clients of the demo.
	skew = 100 * time.Millisecond
	// Bound is longer than the demo takes on a slow machine.
	Bound = 30 * time.Second
	// pause gives the reader time before each chapter.
	pause = 500 * time.Millisecond
	name  = "report"
)

// Play plays all chapters. After any unexpected event, it returns an error that says what was expected.
func Play(ctx context.Context, w io.Writer, log *slog.Logger) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Bound, fmt.Errorf("the demo took longer than %v", Bound))
	defer cancel()
	s, err := newStage(ctx, w, log)
	if err == nil {
		err = s.attempt(s.play)
		s.close(ctx)
	}
	if err == nil {
		err = s.attempt(s.expectNoKeys)
	}
	if err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	fmt.Fprintf(w, summary, text.Rounded(s.handOver), text.Rounded(s.early), len(s.tokens))
	return nil
}

func (s *stage) play() {
	for i, c := range chapters {
		if i > 0 {
			receive(s, time.After(pause), "the demo goes on")
		}
		fmt.Fprintf(s.w, "\n%s\n", c.title)
		for _, step := range c.steps {
			step(s)
		}
	}
}

const summary = `
Seen: one holder at a time, two nodes of five lost without a break, the lock handed over in %v,
a lease that was over %v before its keys, when no majority was left to renew it, three nodes of five
that forgot the lock and gave it to no other client, and %d leases whose tokens only grew.
Next: quorumlock run --help, for locks on your own servers; README.md and docs/, for the library.
`

// stage is the state of the demo. Its methods are steps, and end the attempt if anything unexpected happens.
type stage struct {
	w       io.Writer
	began   time.Time
	ctx     context.Context //nolint:containedctx // it lives as long as the demo, whose context it is
	nodes   []*memory.Node
	a, b    *actor
	stopped int

	// held is the current lease of the lock, and holder has it. waiting receives the result of B's wait for the next.
	held    *quorumlock.Lease
	holder  *actor
	waiting <-chan granted
	// tokens are the tokens of the lock's leases, in the order of the grants.
	tokens []uint64

	// Observed times for the closing lines.
	handOver, early time.Duration
}

type granted struct {
	lease *quorumlock.Lease
	at    time.Time
	err   error
}

// actor is one client. Its channels receive the events of its hooks.
type actor struct {
	*quorumlock.Client
	tell    func(format string, args ...any)
	renewed chan quorumlock.RenewalEvent
	failed  chan quorumlock.RenewalEvent
}

func newStage(ctx context.Context, w io.Writer, log *slog.Logger) (*stage, error) {
	s := &stage{w: w, began: time.Now(), ctx: ctx}
	// Nodes of the demo never hang, and a slow machine must not look as if they did.
	cfg := quorumlock.Config{TTL: ttl, MaxTTL: ttl, MaxClockSkew: skew, NodeTimeoutMin: ttl / 3, NodeTimeoutMax: ttl / 3, Logger: log}
	for i := range total {
		s.nodes = append(s.nodes, memory.New(fmt.Sprintf("node-%d", i+1), nil))
		cfg.Nodes = append(cfg.Nodes, s.nodes[i])
	}
	_, err := admin.Init(ctx, cfg)
	if err == nil {
		s.a, err = s.newActor("A", cfg)
	}
	if err == nil {
		s.b, err = s.newActor("B", cfg)
	}
	return s, err
}

func (s *stage) newActor(name string, cfg quorumlock.Config) (*actor, error) {
	a := &actor{
		tell: func(format string, args ...any) { s.tell(name, format, args...) },
		// The capacity exceeds the renewals of the demo, because hooks must not block.
		renewed: make(chan quorumlock.RenewalEvent, 1000),
		failed:  make(chan quorumlock.RenewalEvent, 1000),
	}
	cfg.Hooks = quorumlock.Hooks{
		Renewed:       func(e quorumlock.RenewalEvent) { a.renewed <- e },
		RenewalFailed: func(e quorumlock.RenewalEvent) { a.failed <- e },
	}
	var err error
	a.Client, err = quorumlock.New(cfg)
	return a, err
}

// close ends both clients. Locks on nodes that were down have expired, so an unconfirmed release is no failure.
func (s *stage) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = s.a.Close(ctx)
	_ = s.b.Close(ctx)
}

// unexpected is the panic of a stage at an expected event that did not happen. It does not leave attempt.
type unexpected struct{ error }

// attempt runs steps, and returns why they ended early. Steps have dozens of checks, so they do not return errors.
func (s *stage) attempt(steps func()) (err error) {
	defer func() {
		r := recover()
		failed, ok := r.(unexpected)
		if r != nil && !ok {
			panic(r)
		}
		err = failed.error
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

func (s *stage) succeeds(what string, err error) { s.expect(what, err == nil, err) }

func receive[T any](s *stage, events <-chan T, what string) (event T) {
	select {
	case event = <-events:
	case <-s.ctx.Done():
		s.expect(what, false, context.Cause(s.ctx))
	}
	return event
}

func (s *stage) eventually(what string, is func() bool) {
	for !is() {
		receive(s, time.After(time.Millisecond), what)
	}
}

// expectNoKeys checks that no lock is left on any node. Undos may continue for a moment after a refusal.
func (s *stage) expectNoKeys() {
	for _, n := range s.nodes {
		s.eventually(n.Name()+" holds no lock", func() bool { return len(n.Keys()) == 0 })
	}
}

func (s *stage) names(numbers []int) string {
	var names []string
	for _, n := range numbers {
		names = append(names, s.nodes[n-1].Name())
	}
	return text.Enumerated(names)
}

func backing(lease *quorumlock.Lease) int {
	have, _ := lease.Backing()
	return have
}

func silent(err error) (names []string) {
	var e *quorumlock.NoQuorumError
	if errors.As(err, &e) {
		for _, n := range e.Nodes {
			names = append(names, n.Node)
		}
	}
	return names
}

// tell prints an event of an actor, with the time since the start.
func (s *stage) tell(actor, format string, args ...any) {
	fmt.Fprintf(s.w, "%6.2f s  %-5s  %s\n", time.Since(s.began).Seconds(), actor, fmt.Sprintf(format, args...))
}

func (s *stage) tellNodes(format string, args ...any) { s.tell("nodes", format, args...) }
