package sim_test

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/sim"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// The race detector is slow, so it gets fewer seeds.
var defaultSeeds = map[bool]int{true: 100, false: 1000}[testkit.Raced]

var (
	seeds   = flag.Int("seeds", defaultSeeds, "how many seeds TestSimulation runs")
	from    = flag.Uint64("from", 1, "the first of them; 0 is one at random")
	kind    = flag.String("kind", "", "what TestSimulation draws cases of besides locks: permits, latches, tampering, or nothing")
	step    = flag.Int("step", 0, "run every so manieth seed, in this process; 0 is all, in a process for each core")
	skip    = flag.Int("skip", 0, "how many seeds to leave out at first, with -step")
	replay  = flag.String("case", "", "the case that TestReplay plays, as a failure has printed it")
	history = flag.Bool("history", true, "tell the history of a failure, shortened")
)

// TestSimulation plays a case for each of many seeds. Every build of the same source behaves the same: -from repeats
// a seed.
func TestSimulation(t *testing.T) {
	if *step == 0 {
		inProcesses(t, sim.Kind(*kind))
		return
	}
	var sum counts
	for i := *skip; i < *seeds; i += *step {
		c := reduced{seed: *from + uint64(i), kind: sim.Kind(*kind)}
		fmt.Println("at", c)
		stuck := time.AfterFunc(runtimeLimit, func() {
			fmt.Println("a run does not come to an end")
			os.Exit(4)
		})
		v := sim.Run(t, c.draw(), false)
		stuck.Stop()
		if len(v.Violations) > 0 {
			fmt.Printf("failed after %d seeds: %v\n", i+1, v.Violations[0])
			report(t, c, v.Violations[0].Promise)
			t.FailNow()
		}
		sum.add(v)
	}
	fmt.Printf(doneFormat, sum.grants, sum.lost, sum.calls, sum.excused)
}

// TestSimulationOfPermits is TestSimulation of a semaphore.
func TestSimulationOfPermits(t *testing.T) { inProcesses(t, sim.OfPermits) }

// TestSimulationOfLatches is TestSimulation of a latch.
func TestSimulationOfLatches(t *testing.T) { inProcesses(t, sim.OfLatches) }

// TestSimulationOfTampering is TestSimulation of locks that are taken away by hand.
func TestSimulationOfTampering(t *testing.T) { inProcesses(t, sim.OfTampering) }

// inProcesses runs shares of the seeds in one process for each core. A run has one core to itself, so that it can be
// repeated. The first failure ends the others.
func inProcesses(t *testing.T, kind sim.Kind) {
	t.Helper()
	began, seeds, first := time.Now(), *seeds, cmp.Or(*from, rand.Uint64N(1<<32))
	if testing.Short() {
		seeds = min(seeds, 300)
	}
	cores := min(runtime.NumCPU(), seeds)
	s := shares{failed: -1, at: make([]string, cores)}
	children := make([]*exec.Cmd, cores)
	for i := range children {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.cancels = append(s.cancels, cancel)
		children[i] = exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSimulation$", fmt.Sprintf("-step=%d", cores),
			fmt.Sprintf("-skip=%d", i), fmt.Sprintf("-seeds=%d", seeds), fmt.Sprintf("-from=%d", first), fmt.Sprintf("-history=%t", *history), "-kind="+string(kind))
		children[i].Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=256MiB") // a run has little memory and much garbage
		children[i].Stderr = os.Stderr
	}
	var wg sync.WaitGroup
	for i, child := range children {
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		wg.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				s.read(i, lines.Text())
			}
			if err := child.Wait(); err != nil && s.counts(i) {
				t.Errorf("failed: %v; it played the case %s, which -run TestReplay -args -case=%s plays again", err, s.at[i], s.at[i])
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	fmt.Printf("simulation: %d seeds from %d in %.1f s (%.0f a minute on %d cores): %s\n",
		seeds, first, took.Seconds(), float64(seeds)/took.Minutes(), cores, s.sum)
	if !t.Failed() {
		require.Equal(t, cores, s.done, "processes that ran all of their share")
	}
}

// runtimeLimit is far more real time than any run takes. A case of many events takes five seconds, and ten times as long on
// a busy machine.
const runtimeLimit = 5 * time.Minute

// shares is the progress of the processes.
type shares struct {
	mu      sync.Mutex
	cancels []context.CancelFunc
	failed  int      // the process that failed first, or -1
	at      []string // the current case of each
	done    int
	sum     counts
}

// counts are the totals of many runs.
type counts struct{ grants, lost, calls, excused int }

// doneFormat is the line in which a process reports its counts.
const doneFormat = "done %d %d %d %d\n"

func (c *counts) add(v sim.Verdict) {
	c.grants, c.lost, c.calls = c.grants+v.Grants, c.lost+v.Lost, c.calls+v.Calls
	if v.Excused {
		c.excused++
	}
}

func (c counts) String() string {
	text := fmt.Sprintf("%d grants, %d leases lost", c.grants, c.lost)
	if c.calls > 0 {
		text += fmt.Sprintf(", %d calls of latches; in %d runs too many nodes forgot", c.calls, c.excused)
	}
	return text
}

// read reads a line that a process has printed, and passes on lines for people.
func (s *shares) read(process int, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := strings.CutPrefix(line, "at "); ok {
		s.at[process] = now
		return
	}
	var c counts
	if n, _ := fmt.Sscanf(line+"\n", doneFormat, &c.grants, &c.lost, &c.calls, &c.excused); n == 4 {
		s.done++
		s.sum = counts{s.sum.grants + c.grants, s.sum.lost + c.lost, s.sum.calls + c.calls, s.sum.excused + c.excused}
		return
	}
	if s.failed < 0 && strings.HasPrefix(line, "failed after ") {
		s.failed = process
		for other, cancel := range s.cancels {
			if other != process {
				cancel() // one failure is enough to look into
			}
		}
	}
	if line != "PASS" && (s.failed < 0 || s.failed == process) {
		fmt.Println(line)
	}
}

// counts reports whether the end of a process is its own failure.
func (s *shares) counts(process int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed < 0 || s.failed == process
}

// TestReplay plays one case again until it fails, and prints its history.
func TestReplay(t *testing.T) {
	if *replay == "" {
		t.Skip("no case: run it with -args -case=...")
	}
	r, err := parseCase(*replay)
	require.NoError(t, err)
	var v sim.Verdict
	for range 10 { // a busy machine may have interrupted a run in which the case failed
		if v = sim.Run(t, r.draw(), true); len(v.Violations) > 0 {
			break
		}
	}
	tell(r, v)
	require.Empty(t, v.Violations)
}

// report shrinks a failing case, and prints how to replay it.
func report(t *testing.T, r reduced, promise sim.Promise) {
	if !*history {
		tell(r, sim.Run(t, r.draw(), false))
		return
	}
	small := shrink(r, func(c *sim.Case) bool {
		v := sim.Run(t, c, false)
		return len(v.Violations) > 0 && v.Violations[0].Promise == promise
	})
	whole := r.draw()
	fmt.Printf("seed %#x fails; shortened to %d of %d tasks and %d of %d faults:\n",
		r.seed, len(small.tasks), len(whole.Tasks), len(small.faults), len(whole.Faults))
	tell(small, sim.Run(t, small.draw(), true))
	fmt.Printf("to replay it: go test ./faultinject/sim -run TestReplay -args -case='%s'\n", small)
}

// tell prints what was drawn, except for the tasks, which the history tells of.
func tell(r reduced, v sim.Verdict) {
	c := r.draw()
	fmt.Print(c.Faults)
	c.Faults, c.Tasks = nil, nil
	fmt.Printf("%+v\n", *c)
	if len(v.History) > 0 {
		fmt.Println(strings.Join(v.History, "\n"))
	}
	for _, violation := range v.Violations {
		fmt.Println("VIOLATION at", violation)
	}
}
