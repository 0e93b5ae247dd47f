package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/chaos"
	"github.com/quorumlock/quorumlock/faultinject/container"
	"github.com/quorumlock/quorumlock/faultinject/history"
	"github.com/quorumlock/quorumlock/faultinject/process"
	"github.com/quorumlock/quorumlock/faultinject/workload"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/node"
)

var (
	duration = flag.Duration("duration", 10*time.Second, "how long TestChaos breaks things")
	seed     = flag.Uint64("seed", 0, "what TestChaos breaks follows from it; 0 is one at random")
	nodeKind = flag.String("nodes", "process", "what nodes are: process, docker, cluster (one node, a slot of a Redis Cluster), or mixed (a slot and two processes)")
	kind     = flag.String("kind", "lock,semaphore,rwlock,latch,join", "what the clients of TestChaos use, all at the same time")
	workers  = flag.Int("workers", 2, "how many users of each kind each client of TestChaos has")
	planFile = flag.String("plan", "", "a file with a plan for TestChaos, instead of a seed")
	out      = flag.String("out", "", "where histories are kept; they are thrown away by default, unless a test fails")
)

const (
	clients = 3
	ttl     = 2 * time.Second
)

// nodesOf returns the number of nodes of a kind, and how many of them are slots of a cluster.
func nodesOf(kind string) (nodes, shards int) {
	switch kind {
	case "cluster":
		return 1, 1
	case "mixed":
		return 3, 1
	default:
		return 5, 0
	}
}

func TestMain(m *testing.M) {
	if was, err := chaos.Client(); was {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestChaos breaks everything at random.
func TestChaos(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	nodes, shards := nodesOf(*nodeKind)
	plan, err := faultinject.Nemesis{
		Seed: *seed, Nodes: nodes, Shards: shards, Clients: clients, TTL: ttl,
		// Locks tolerate a hundredth of the TTL and 2 ms, there and back.
		ClockStep: 10 * time.Millisecond,
		Losses:    *nodeKind != "docker",
		// One rule alone guards against each of these, so they must be frequent: the recovery, and that nothing shortens a lock.
		Episodes: slices.Concat(faultinject.Episodes(), slices.Repeat([]faultinject.Episode{faultinject.Amnesia, faultinject.Lateness}, 4),
			slices.Repeat([]faultinject.Episode{faultinject.OwnerChange}, 12)),
	}.Plan(*duration)
	require.NoError(t, err)
	if *planFile != "" {
		plan = readPlan(t, *planFile)
	}
	what := fmt.Sprintf("%v of seed %d", *duration, *seed)
	if *planFile != "" {
		what = *planFile
	}
	kinds, err := chaos.ParseKinds(*kind)
	require.NoError(t, err)
	listed, limits, moves := drawMoves(*seed, nodes, *duration)
	prefix := workload.Pick(workload.NewDrawer(*seed, 10), "", "app/")
	fmt.Printf("chaos: %s, on %d nodes of kind %q (n1, n2, ...) and %d client processes (c1, c2, ...), which use\n"+
		"%v with a TTL of %v. The plan, which -plan takes from a file:\n%s\n", what, nodes, *nodeKind, clients, kinds, ttl, plan)
	strain := testkit.MeasureStrain(t)
	report := run(t, chaos.Config{Out: os.Stdout, Clients: clients, Workers: *workers, Kinds: kinds, Every: true, Plan: plan, Seed: *seed, Prefix: prefix, Alike: len(moves) > 0, Listed: listed, Limits: limits, Moves: moves})
	// Otherwise nothing was tested. The worst plans leave hardly any time between faults.
	least := max(int(*duration/(4*ttl)), 3)
	unseen := slices.Clone(report.Slow)
	for _, kind := range kinds {
		if had := report.Granted[kind]; had < least {
			unseen = append(unseen, fmt.Sprintf("%s was acquired %d times, and not %d", kind, had, least))
		}
		if kind == chaos.Latch && report.Forgotten >= report.Latches {
			unseen = append(unseen, "no latch was held to every promise")
		}
	}
	if len(unseen) > 0 {
		strain.Missing(t, time.Second, "%s", strings.Join(unseen, "; "))
	}
}

// oldListsCount is how long nodes count a list that no client uses any more: three recoveries, and a little.
const oldListsCount = 3*(ttl+ttl/2) + ttl/4

// limitSteps are the limits of clients before, during and after a change upwards. Any two neighbours may be in use together.
var limitSteps = []node.Limits{
	{MaxTTL: ttl / 2, MaxClockSkew: ttl / 4},
	{MaxTTL: ttl / 2, MaxClockSkew: ttl / 4, Longer: ttl + ttl/2},
	{MaxTTL: ttl, MaxClockSkew: ttl / 2},
}

// drawMoves draws changes of the nodes and of the limits in half of the runs: from three nodes up to all, and back, and to other
// machines; and each of the limits to a neighbour. A list has one node more or one less than the list before, and no client
// moves again before the list before has run out. Some clients have longer recoveries, so their lists count for longer.
func drawMoves(seed uint64, nodes int, span time.Duration) (first []int, limits node.Limits, moves []chaos.Move) {
	d := workload.NewDrawer(seed, 9)
	if d.One(2) {
		return nil, limits, nil
	}
	order, n, step := d.Perm(nodes), nodes, d.IntN(len(limitSteps))
	if nodes == 5 {
		n = workload.Pick(d, 3, nodes)
	}
	first, limits = slices.Clone(order[:n]), limitSteps[step]
	const apart = oldListsCount * 6 / 5
	for at := d.UpTo(ttl); at < span; at += apart + ttl {
		after := apart
		if moves == nil {
			after = at
		}
		switch up := d.One(2); {
		case nodes < 5 || d.One(2):
			if step == 0 || step == 1 && up {
				step++
			} else {
				step--
			}
		case n == 3 || n < nodes && up:
			n++
		default:
			d.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
			n--
		}
		for _, client := range d.Perm(clients) {
			moves = append(moves, chaos.Move{After: after, Client: client, Nodes: slices.Clone(order[:n]), Limits: limitSteps[step]})
			after = d.UpTo(ttl / 2)
		}
	}
	return first, limits, moves
}

func readPlan(t *testing.T, name string) faultinject.Plan {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	plan, err := faultinject.ParsePlan(file)
	require.NoError(t, err)
	return plan
}

// run runs the plan on new nodes of the kind that the flags select.
func run(t *testing.T, cfg chaos.Config) *chaos.Report {
	t.Helper()
	cfg.Servers = start(t, *nodeKind)
	return runOn(t, cfg)
}

// runOn runs the plan on the servers of the configuration.
func runOn(t *testing.T, cfg chaos.Config) *chaos.Report {
	t.Helper()
	cfg.TTL = ttl
	cfg.Dir = directory(t)
	// An interrupted run must leave no servers and containers.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := chaos.Run(ctx, cfg)
	if err == nil {
		show(cfg.Out, report)
	}
	switch {
	case err != nil || len(report.Violations)+len(report.Slow) > 0:
		fmt.Printf("The clients' histories are in %[1]s.\n"+
			"The same faults again: -args -nodes=%[2]s -plan=%[1]s/%[3]s -seed=%[4]d -duration=%[5]v -kind=%[6]s -workers=%[7]d\n",
			cfg.Dir, *nodeKind, chaos.PlanFile, *seed, *duration, *kind, *workers)
	case *out == "":
		require.NoError(t, os.RemoveAll(cfg.Dir))
	}
	require.NoError(t, err)
	require.Empty(t, report.Violations)
	return report
}

// show prints what a run has seen.
func show(out io.Writer, r *chaos.Report) {
	for object, counts := range r.Objects {
		if object.Of != history.Latch {
			_, _ = fmt.Fprintf(out, "%s %s: %+v\n", object.Of, object.Name, counts)
		}
	}
	_, _ = fmt.Fprintf(out, "acquired: %v; of %d latches, a majority may have forgotten %d; late writes refused: %d; work done once: %v\n",
		r.Granted, r.Latches, r.Forgotten, r.Late, r.Once)
	_, _ = fmt.Fprintf(out, "slow: %s\nviolations: %s\n", strings.Join(r.Slow, "\n"), strings.Join(r.Violations, "\n"))
}

// directory creates a directory, which is kept if the test fails.
func directory(t *testing.T) string {
	t.Helper()
	if *out != "" {
		dir := filepath.Join(*out, t.Name())
		require.NoError(t, os.MkdirAll(dir, 0o755))
		return dir
	}
	dir, err := os.MkdirTemp("", "quorumlock-chaos-")
	require.NoError(t, err)
	return dir
}

func start(t *testing.T, kind string) []faultinject.Server {
	t.Helper()
	nodes, _ := nodesOf(kind)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // may include the download of an image
	defer cancel()
	var group *faultinject.Group
	var err error
	switch kind {
	case "process":
		group, err = process.Start(ctx, nodes)
	case "cluster", "mixed":
		group, err = process.StartWithCluster(ctx, nodes)
	case "docker":
		group, err = container.Start(ctx, nodes)
	default:
		t.Fatalf("-nodes is process, docker, cluster or mixed, not %s", kind)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	return group.Servers()
}
