package mutant_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	pattern = flag.String("mutant", "", "a regular expression: TestMutants and TestOverlays take only mutants whose names match")
	nightly = flag.Bool("nightly", false, "whether TestMutants also looks for mutants that may take minutes")
	budget  = flag.Int("budget", 0, "how many seeds TestMutants runs at most for each mutant; 0 skips it")
	part    = flag.Uint64("part", 1, "TestMutants plays one of so many parts of the mutants")
	from    = flag.Uint64("from", 0, "any number: it selects the part, so that runs with other numbers play the others")
	to      = flag.String("to", "", "the directory in which TestOverlays leaves the overlays, one directory for each mutant")
)

// most is how long a mutant may run. A mutant that loops forever is not found.
const most = 20 * time.Minute

// atOnce is the number of mutants that are built and run at a time. Each run has one core to itself.
const atOnce = 4

// TestMutants builds the simulation with each mutant, and runs it until it sees a promise
// broken. The seeds are the same each time, so the count is too.
func TestMutants(t *testing.T) {
	if *budget == 0 {
		t.Skip("no budget: run it with -args -budget=10000")
	}
	var found results
	t.Cleanup(func() { found.print(t) })
	turns := make(chan struct{}, min(atOnce, runtime.NumCPU()))
	place := *from
	for _, m := range selected(t) {
		if m.Real || m.Nightly && !*nightly {
			continue
		}
		if place++; place%*part != 0 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			began := time.Now()
			binary := build(t, m)
			built := time.Since(began)
			r := simulate(t, binary, m.Kind)
			r.mutant, r.building, r.running = m, built, time.Since(began)-built
			found.add(r)
			t.Logf("seeds: %d, broken promise: %s", r.seeds, r.promise)
			require.NotZero(t, r.seeds, "the simulation did not find it within %d seeds:\n%s\n%s\n%s", *budget, m.Rule, m.Then, r.ending)
		})
	}
}

// TestOverlays leaves overlays, to build mutants by hand or to have other tests find them:
// go test -overlay=.../overlay.json.
func TestOverlays(t *testing.T) {
	if *to == "" {
		t.Skip("no directory: run it with -args -to=...")
	}
	for _, m := range selected(t) {
		dir := filepath.Join(*to, m.Name)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		overlay, err := m.apply(root, dir)
		require.NoError(t, err)
		t.Log(overlay)
	}
}

// root is the root of the repository, relative to this directory.
const root = "../.."

// selected are the mutants whose names match the flag.
func selected(t *testing.T) []mutant {
	t.Helper()
	names, err := regexp.Compile(*pattern)
	require.NoError(t, err)
	var some []mutant
	for _, m := range mutants() {
		if names.MatchString(m.Name) {
			some = append(some, m)
		}
	}
	require.NotEmpty(t, some, "no mutant has a name that matches %q", *pattern)
	return some
}

// quickly leaves out debugging information and inlining, in this project's own packages. Most mutants are found
// after few seeds, so compiling them takes longer than running them.
const quickly = "-gcflags=github.com/quorumlock/quorumlock/...=-dwarf=false -l"

// build makes the test binary of the simulation with a mutant in it.
func build(t *testing.T, m mutant) (binary string) {
	t.Helper()
	dir := t.TempDir()
	overlay, err := m.apply(root, dir)
	require.NoError(t, err)
	binary = filepath.Join(dir, "sim.test")
	command := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-vet=off", quickly, "-ldflags=-s -w", "-o", binary, "./sim")
	command.Dir = ".."
	out, err := command.CombinedOutput()
	require.NoError(t, err, "the mutant does not compile:\n%s", out)
	return binary
}

type result struct {
	mutant            mutant
	seeds             int // until it was found; 0 if it was not
	promise           string
	building, running time.Duration
	ending            []byte // of its output
}

var failure = regexp.MustCompile(`(?m)^failed after (\d+) seeds: \S+: (\w+):`)

// simulate runs seeds until one fails.
func simulate(t *testing.T, binary, kind string) result {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, "-test.run=^TestSimulation$", "-test.timeout="+most.String(),
		"-step=1", "-from=1", "-history=false", fmt.Sprintf("-seeds=%d", *budget), "-kind="+kind)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	r := result{ending: out.Bytes()[max(0, out.Len()-2000):]}
	if found := failure.FindSubmatch(out.Bytes()); found != nil && err != nil {
		r.seeds, err = strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		r.promise = string(found[2])
	}
	return r
}

// results are told together, in the order of the list.
type results struct {
	mu   sync.Mutex
	list []result
}

func (r *results) add(one result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, one)
}

func (r *results) print(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	by := make(map[string]result)
	for _, one := range r.list {
		by[one.mutant.Name] = one
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "mutant\tseeds\tbroken promise\ts to build\ts to find")
	for _, m := range mutants() {
		one, ok := by[m.Name]
		if !ok {
			continue
		}
		seeds := strconv.Itoa(one.seeds)
		if one.seeds == 0 {
			seeds, one.promise = fmt.Sprintf("> %d", *budget), "not found"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f\t%.1f\n", m.Name, seeds, one.promise, one.building.Seconds(), one.running.Seconds())
	}
}
