package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/node"
)

// Config configures a run.
type Config struct {
	// Servers are the nodes: new ones that no other program uses.
	Servers []faultinject.Server `json:"-"`
	// Clients is the number of client processes. Workers is the number of users of each kind of object in each of
	// them. Defaults: 3 and 3.
	Clients, Workers int
	// Crowd is the number of further callers in each client that give up soon, on names of their own: more than nodes
	// can serve.
	Crowd int
	// Kinds are the kinds of objects that clients use. Default: locks.
	Kinds []Kind
	// TTL is the locks' TTL, and the largest. Clocks may be off by half of it.
	TTL time.Duration
	// Every lets clients differ in their configuration, and use every exported operation and option that a workload must
	// draw. It excludes Patient. Otherwise, clients of locks only acquire, renew and release majority locks, so that only a
	// fault can cause a lost lease.
	Every bool
	// Patient gives nodes a third of the TTL to answer: a busy machine then costs clients little.
	Patient bool
	// Brisk makes holds short, so that a client without a lock was kept from it by a fault.
	Brisk bool
	// Think is the longest time between a holder's check of its lease and its write. Default: 10 ms.
	Think time.Duration
	// TokensOnly does not count two simultaneous leases as a violation. Where clocks step further than locks allow
	// for, only the order of tokens is promised.
	TokensOnly bool
	Seed       uint64
	Plan       faultinject.Plan `json:"-"`
	// Alike makes clients list the nodes by the addresses of the servers, as programs should. Otherwise each client has addresses
	// of its own for them. If a node forgets its id just when a client starts, clients may then refuse each other for a while.
	Alike bool
	// Prefix is put before all names on the nodes.
	Prefix string
	// Listed are the indices of the nodes that clients list at first; none means all. Limits are their limits at first, by
	// default the TTL, and half of it for clocks. Moves change both, one after the other.
	Listed []int `json:"-"`
	Limits node.Limits
	Moves  []Move `json:"-"`
	// Dir is the directory for the clients' histories. It must exist and be empty.
	Dir string
	// Out receives every fault.
	Out io.Writer `json:"-"`
}

// Move is the end of a client's process, as in a rolling deployment, and the start of one with another list or other limits.
type Move struct {
	// After is the pause before it, since the end of the move before.
	After  time.Duration
	Client int
	// Nodes are the indices of the nodes in the list; nil for the same as before. Limits are the same as before if zero.
	Nodes  []int
	Limits node.Limits
}

func (c Config) withDefaults() Config {
	c.Clients = cmp.Or(c.Clients, 3)
	c.Workers = cmp.Or(c.Workers, 3)
	c.Think = cmp.Or(c.Think, 10*time.Millisecond)
	c.Limits = cmp.Or(c.Limits, node.Limits{MaxTTL: c.TTL, MaxClockSkew: c.skew()})
	if len(c.Listed) == 0 {
		for i := range c.Servers {
			c.Listed = append(c.Listed, i)
		}
	}
	if len(c.Kinds) == 0 {
		c.Kinds = []Kind{Lock}
	}
	return c
}

type activeRun struct {
	Config
	resource *resource
	paths    [][]*path // by client and node
	clients  []*client
	report   *Report
	began    time.Time

	mu     sync.Mutex
	losses []loss
}

// clientsEnd bounds the time that clients take to end when asked.
const clientsEnd = 20 * time.Second

// Run executes the plan while clients work, and reports their observations. An error means that the run itself
// failed; broken promises are in the report, which is never nil. Client must be called first in the same program.
// Everything that Run starts ends with it, and on Linux with the program.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	report := &Report{Granted: make(map[Kind]int), Lags: make(map[time.Duration]time.Duration)}
	a := &activeRun{Config: cfg, report: report, began: time.Now()}
	if err := errors.Join(cfg.Plan.Check(len(cfg.Servers), cfg.Clients), a.prepare()); err != nil {
		return a.report, err
	}
	err := a.setUp(ctx)
	if err == nil {
		err = a.act(ctx)
	}
	err = errors.Join(err, a.tearDown(ctx, err == nil))
	whole := err == nil
	if len(a.clients) > 0 {
		// Observations before a failure are checked as well.
		err = errors.Join(err, a.judge(whole))
	}
	return a.report, err
}

// PlanFile is the file of the plan, beside the histories.
const PlanFile = "plan.txt"

// prepare refuses a directory with the histories of another run, which clients cannot extend. It writes the plan.
func (a *activeRun) prepare() error {
	old, err := filepath.Glob(filepath.Join(a.Dir, "*.jsonl"))
	switch {
	case err != nil:
		return err
	case len(old) > 0:
		return fmt.Errorf("chaos: %s has the histories of another run", a.Dir)
	default:
		return os.WriteFile(filepath.Join(a.Dir, PlanFile), []byte(a.Plan.String()), 0o600)
	}
}

func (a *activeRun) setUp(ctx context.Context) error {
	cfg := settings{Config: a.Config}.config()
	for _, i := range a.Listed { // later ones are as new as a machine that an operator adds
		cfg.Addresses = append(cfg.Addresses, addressOf(a.Servers[i]))
	}
	cfg.NodeTimeoutMin, cfg.NodeTimeoutMax = cfg.TTL/3, cfg.TTL/3
	_, err := admin.Init(ctx, cfg)
	for began := time.Now(); errors.Is(err, admin.ErrUnanswered) && time.Since(began) < patience; { // a busy machine
		_, err = admin.Init(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("chaos: opening the nodes: %w", err)
	}
	if a.resource, err = newResource(); err != nil {
		return err
	}
	for i := range a.Clients {
		if err := a.join(i); err != nil {
			return err
		}
	}
	return a.awaitClients(ctx)
}

// awaitClients waits until each client has succeeded once, so that nodes know its list. Faults before that would test something
// else, and clients get no answers in time from servers of a machine that compiles and tests other things.
func (a *activeRun) awaitClients(ctx context.Context) error {
	const patience = 2 * time.Minute
	began := time.Now()
	for _, c := range a.clients {
		for !c.succeeded() {
			if time.Since(began) > patience {
				return fmt.Errorf("chaos: %s has achieved nothing in %v", c.settings.Label, patience)
			}
			if !workload.Sleep(ctx, 10*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// join adds a client, with its own path to each node.
func (a *activeRun) join(i int) error {
	s := settings{Config: a.Config, Number: i, Label: fmt.Sprintf("c%d", i+1), Resource: a.resource.addr()}
	s.Wall = time.Duration(i%3-1) * s.skew() * 2 / 5 // behind, right, ahead: as far as is allowed, or nearly
	s.Seed += uint64(i)
	var paths []*path
	for _, server := range a.Servers {
		w := &path{cuts: make(map[faultinject.Direction]int), detained: make(map[faultinject.Step][]func())}
		paths = append(paths, w)
		if err := s.reach(server, w); err != nil {
			return errors.Join(err, w.close())
		}
	}
	a.paths = append(a.paths, paths)
	c := &client{settings: s, setups: []setup{{nodes: a.Listed, limits: a.Limits}}}
	if err := c.start(); err != nil {
		return err
	}
	a.clients = append(a.clients, c)
	return nil
}

// act executes the plan and the moves, and then gives the clients time to recover.
func (a *activeRun) act(ctx context.Context) error {
	a.report.Began = clock.System().Now()
	var moving sync.WaitGroup
	var failed error
	moving.Go(func() { failed = a.move(ctx) })
	err := a.Plan.Run(ctx, a, func(line string) { a.say("%s", line) })
	moving.Wait()
	err = errors.Join(err, failed)
	a.report.Over = clock.System().Now()
	if err == nil {
		a.say("all faults have ended")
		a.recover(ctx)
	}
	return errors.Join(err, ctx.Err())
}

func (a *activeRun) move(ctx context.Context) error {
	for _, m := range a.Moves {
		if !workload.Sleep(ctx, m.After) {
			break
		}
		c := a.clients[m.Client]
		before, next := c.setup(), c.next(m)
		a.say("c%d moves from %v and %v to %v and %v", m.Client+1, a.named(before.nodes), before.limits, a.named(next.nodes), next.limits)
		if err := c.move(next); err != nil {
			return fmt.Errorf("chaos: c%d moves: %w", m.Client+1, err)
		}
	}
	return nil
}

func (a *activeRun) named(nodes []int) (names []string) {
	for _, i := range nodes {
		names = append(names, a.Servers[i].Name())
	}
	return names
}

// patience is how long a run waits, beyond the longest recovery, for everything to be acquired again.
const patience = 30 * time.Second

// recover gives clients the time of the longest recovery. It waits longer if the machine is too busy for them to
// finish in time.
func (a *activeRun) recover(ctx context.Context) {
	ended := time.Now()
	longest := time.Duration(0)
	for _, kind := range a.Kinds {
		longest = max(longest, a.recoveryOf(kind))
	}
	workload.Sleep(ctx, longest)
	for !a.resource.used(a.Kinds, ended) && time.Since(ended) < longest+patience {
		if !workload.Sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

func (a *activeRun) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = fmt.Fprintf(a.Out, "%7.3fs  %s\n", time.Since(a.began).Seconds(), fmt.Sprintf(format, args...))
}

// tearDown ends the clients. First their workers end. The clients follow if all has gone well so far and the workers
// left nothing. A client that does not end, or fails, has broken a promise.
func (a *activeRun) tearDown(ctx context.Context, well bool) error {
	var errs []error
	for _, c := range a.clients {
		errs = append(errs, c.ask())
	}
	if well {
		a.leftovers(ctx)
	}
	var wg sync.WaitGroup
	ends := make([]error, len(a.clients))
	for i, c := range a.clients {
		wg.Go(func() { ends[i] = c.finish(clientsEnd) })
	}
	wg.Wait()
	for i, err := range ends {
		if err = errors.Join(a.clients[i].early, err); err != nil {
			a.report.violated("c%d: %v", i+1, err)
		}
	}
	for _, paths := range a.paths {
		for _, w := range paths {
			errs = append(errs, w.close())
		}
	}
	if a.resource != nil {
		a.resource.close()
	}
	return errors.Join(errs...)
}
