package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/history"
)

// Config is what a run is made of.
type Config struct {
	// Servers are the nodes: new, and nobody else's.
	Servers []faultinject.Server
	// Clients is how many client processes there are, Workers how many users of each kind of
	// thing each of them has. Defaults: 3 and 3.
	Clients, Workers int
	// Kinds are what clients use. Default: locks.
	Kinds []Kind
	// TTL is that of the locks, and the largest; clocks may be off by half of it.
	TTL time.Duration
	// Gentle has clients take, renew and release majority locks only. A lease that is lost
	// then was lost by a fault.
	Gentle bool
	// Brisk has clients hold nothing for long: who gets no lock then is kept from it.
	Brisk bool
	// Think is how long a holder takes, at most, from its look at the lease to its write.
	// Default: 10 ms.
	Think time.Duration
	// TokensOnly has two leases at a time count as no violation: where clocks step further
	// than locks allow for, only the token is promised.
	TokensOnly bool
	Seed       uint64
	Plan       faultinject.Plan
	// Dir is where clients write their histories: it must exist, and be empty.
	Dir string
	// Out is told of every fault and, now and then, how it goes.
	Out io.Writer
}

// arena is a run under way.
type arena struct {
	Config
	resource *resource
	ways     [][]*way // by client and node
	clients  []*client
	report   *Report
	began    time.Time

	mu     sync.Mutex
	losses []loss
}

// clientsEnd bounds how long clients take to end when they are asked to.
const clientsEnd = 20 * time.Second

// Run carries out the plan among clients at work, and reports what they saw. It returns an
// error if something could not be done that has nothing to do with locks; a broken promise
// is in the report, which there is in any case. Client must be called first in the same
// program. What it starts ends with it, and on Linux with the program.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Clients == 0 {
		cfg.Clients = 3
	}
	if cfg.Workers == 0 {
		cfg.Workers = 3
	}
	if len(cfg.Kinds) == 0 {
		cfg.Kinds = []Kind{Lock}
	}
	if cfg.Think == 0 {
		cfg.Think = 10 * time.Millisecond
	}
	report := &Report{Faults: make(map[faultinject.Fault]int), Kinds: make(map[Kind]*Tally)}
	a := &arena{Config: cfg, report: report, began: time.Now()}
	for _, step := range cfg.Plan {
		a.report.Faults[step.Fault]++
	}
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
		// What clients saw until something went wrong is judged as well.
		err = errors.Join(err, a.judge(whole))
	}
	a.report.Took = time.Since(a.began)
	return a.report, err
}

// PlanFile is where the plan is kept, beside the histories.
const PlanFile = "plan.txt"

// prepare refuses a directory with the histories of another run, to which clients could not
// add, and keeps the plan.
func (a *arena) prepare() error {
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

// settings are what all clients have in common.
func (a *arena) settings() settings {
	return settings{
		TTL: a.TTL, Skew: a.TTL / 2, Clients: a.Clients, Workers: a.Workers, Kinds: a.Kinds,
		Gentle: a.Gentle, Brisk: a.Brisk, Think: a.Think,
	}
}

func (a *arena) limits() quorumlock.Config { return a.settings().config() }

func (a *arena) setUp(ctx context.Context) error {
	cfg := a.limits()
	for _, s := range a.Servers {
		cfg.Addresses = append(cfg.Addresses, s.Addr())
	}
	if _, err := admin.Init(ctx, cfg); err != nil {
		return fmt.Errorf("chaos: opening the nodes: %w", err)
	}
	var err error
	if a.resource, err = newResource(); err != nil {
		return err
	}
	for i := range a.Clients {
		if err := a.join(i); err != nil {
			return err
		}
	}
	return nil
}

// join adds a client, with a way of its own to each node.
func (a *arena) join(i int) error {
	s := a.settings()
	s.Wall = time.Duration(i%3-1) * s.Skew * 2 / 5 // behind, right, ahead: as far as is allowed, or nearly
	s.Label, s.Dir, s.Resource, s.Seed = fmt.Sprintf("c%d", i+1), a.Dir, a.resource.addr(), a.Seed+uint64(i)
	var ways []*way
	for _, server := range a.Servers {
		w, err := newWay(server.Addr())
		if err != nil {
			return err
		}
		ways = append(ways, w)
		s.Nodes = append(s.Nodes, w.proxy.Addr())
	}
	a.ways = append(a.ways, ways)
	c := &client{settings: s}
	if err := c.start(); err != nil {
		return err
	}
	a.clients = append(a.clients, c)
	return nil
}

// act carries out the plan, and then leaves the clients time to recover.
func (a *arena) act(ctx context.Context) error {
	watched, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { a.watch(watched) })
	a.report.Began = clock.System().Now()
	err := a.Plan.Run(ctx, a, func(line string) { a.say("%s", line) })
	a.report.Over = clock.System().Now()
	if err == nil {
		a.say("all is mended")
		longest := time.Duration(0)
		for _, kind := range a.Kinds {
			longest = max(longest, a.recoveryOf(kind))
		}
		sleep(ctx, longest)
	}
	stop()
	watch.Wait()
	return errors.Join(err, ctx.Err())
}

// recovery is how long after the last fault a lock must be had at the latest.
func (a *arena) recovery() time.Duration { return a.limits().Limits().Recovery() + 2*time.Second }

// recoveryOf is how long after the last fault something of a kind must be had at the latest. A latch
// may be in the middle of its time when nothing is in its way any more, and then the next one has to
// be done; and who takes several things together holds some of them while it waits for the others.
func (a *arena) recoveryOf(kind Kind) time.Duration {
	if kind == Latch || kind == Join {
		return a.recovery() + 2*a.TTL
	}
	return a.recovery()
}

// watch says every few seconds how it goes.
func (a *arena) watch(ctx context.Context) {
	for sleep(ctx, 5*time.Second) {
		s := a.resource.seen()
		a.say("... %d grants, %d times a latch was done, the last %v ago; %d late writes refused",
			s.grants, s.dones, s.since.Round(time.Millisecond), s.late)
	}
}

func (a *arena) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = fmt.Fprintf(a.Out, "%7.3fs  %s\n", time.Since(a.began).Seconds(), fmt.Sprintf(format, args...))
}

// tearDown ends the clients: first their workers, and then, if all has gone well so far and
// nothing is left of what these had, the rest. One that does not end, or fails, has broken a
// promise.
func (a *arena) tearDown(ctx context.Context, well bool) error {
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
	for _, ways := range a.ways {
		for _, w := range ways {
			errs = append(errs, w.proxy.Close())
		}
	}
	if a.resource != nil {
		a.resource.close()
	}
	return errors.Join(errs...)
}

// leftovers waits until the workers have ended, and then looks for keys of what nobody holds any
// more. The clients live on and would renew what they still had; what those had that were killed
// has run out since: so it is not the TTL that has to be waited for.
func (a *arena) leftovers(ctx context.Context) {
	busy, cancel := context.WithTimeout(ctx, clientsEnd)
	defer cancel()
	for !a.resource.idle() {
		if !sleep(busy, 10*time.Millisecond) {
			a.report.violated("workers had not ended %v after they were asked to", clientsEnd)
			return
		}
	}
	bound, cancel := context.WithTimeout(ctx, a.TTL/4)
	defer cancel()
	for _, s := range a.Servers {
		for {
			left, err := leftOn(ctx, s)
			if err == nil && len(left) == 0 {
				break
			}
			if !sleep(bound, 50*time.Millisecond) {
				a.report.violated("after all workers have given back what they had and ended, %s has the keys %v (%v)", s.Name(), left, err)
				return
			}
		}
	}
}

// lasting are the keys of fences and latches, which end by themselves, and are meant to last until then.
var lasting = regexp.MustCompile(`^quorumlock:(fence|latch|latched|awaiting):`)

// leftOn lists the keys of a server that nobody needs any more, and those that ought to have an end.
func leftOn(ctx context.Context, s faultinject.Server) ([]string, error) {
	text, err := s.Command(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	keys := strings.Fields(text)
	for _, key := range keys {
		if ttl, err := s.Command(ctx, "PTTL", key); key != "quorumlock:node" && err == nil && ttl == "-1" {
			return []string{key + " (without an end)"}, nil
		}
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return key == "quorumlock:node" || lasting.MatchString(key)
	}), nil
}

// judge has the history checked.
func (a *arena) judge(whole bool) error {
	h, err := history.ReadDir(a.Dir)
	if err != nil {
		return err
	}
	result := history.Check(h, time.Minute)
	a.report.History, a.report.Counts, a.report.Names = h, result.Total, result.Names
	a.tally(h, result)
	a.blame(h, result)
	if whole {
		a.progress(h)
		a.recovered(h)
	}
	if len(a.report.Violations) > 0 {
		return keep(a.Dir, result)
	}
	return nil
}

// blame takes over what is wrong with the history, and what the resource has seen.
func (a *arena) blame(h *history.History, result *history.Result) {
	for _, early := range a.resource.early {
		a.report.violatedBy(Latch, "the latch %s", early)
	}
	for _, v := range result.Violations {
		switch {
		case a.TokensOnly && (v.Kind == history.Overlap || v.Kind == history.ActAfterGrant): // that is what tokens are for
		case a.TokensOnly && v.Kind == history.Unexplained: // an overlap may be why
		case excusable(v) && a.forgotten(h, v.Name):
		default:
			a.report.violatedBy(kindOf(thing{v.Of, v.Name}), "%v", v)
		}
	}
	if len(result.Undecided) > 0 {
		a.report.violated("it could not be decided whether the history of %v is legal", result.Undecided)
	}
}

// progress sees when each name was had again after the last fault, and that some latch was done.
func (a *arena) progress(h *history.History) {
	for _, kind := range a.Kinds {
		for _, t := range things[kind] {
			a.soon(h, kind, fmt.Sprintf("%q was had", t.name), func(e history.Event) bool {
				return e.Kind == history.Acquire && e.Error == "" && e.Of == t.of && slices.Contains(e.Names, t.name)
			})
		}
		if kind == Latch {
			a.soon(h, kind, "a latch was done", func(e history.Event) bool {
				return e.Kind == history.Await && e.Error == ""
			})
		}
	}
}

// soon sees when something came about first after the last fault.
func (a *arena) soon(h *history.History, kind Kind, what string, is func(history.Event) bool) {
	bound := a.recoveryOf(kind)
	first := time.Duration(-1)
	for _, e := range h.Events() {
		since := e.Return - a.report.Over
		if is(e) && since > 0 && (first < 0 || since < first) {
			first = since
		}
	}
	if first < 0 || first > bound {
		a.report.violatedBy(kind, "not within %v after the last fault was mended: %s", bound, what)
	}
	a.report.Recovered = max(a.report.Recovered, first)
}

// answered are the kinds of events that take the answers of enough nodes to succeed.
var answered = map[history.Kind]bool{history.Acquire: true, history.Set: true, history.CountDown: true, history.Count: true}

// recovered sees whether every client can use the nodes again after the last fault: it had
// something, or was told who has it.
func (a *arena) recovered(h *history.History) {
	for i := range a.clients {
		place := fmt.Sprintf("c%d", i+1)
		if !slices.ContainsFunc(h.Events(), func(e history.Event) bool {
			here := e.Client == place || strings.HasPrefix(e.Client, place+".")
			got := e.Error == "" || e.Kind == history.Acquire && strings.Contains(e.Error, "is held by")
			return here && answered[e.Kind] && e.Return > a.report.Over && got
		}) {
			a.report.violated("%s never got through to enough nodes after the last fault was mended", place)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
