//go:build unix

package realtest_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

// childWork is the variable with the task of a process in the role "work", as JSON.
const childWork = "QUORUMLOCK_TEST_WORK"

// task is the work of a process on one lock. The workers of its clients acquire the lock, hold it, release it, and
// pause, in a loop.
type task struct {
	Name string
	// Clients is the number of clients. Workers is the number of workers per client.
	Clients, Workers int
	// Hold is the duration of a section. Pause is the time between two sections of a worker.
	Hold, Pause time.Duration
	Waiting     quorumlock.Waiting
	NoHandover  bool
	TTL         time.Duration
	// Far is the latency that is added to the path to each node.
	Far time.Duration
	// Probe makes each section measure a round trip: the time of TryAcquire for a free lock.
	Probe bool
	// Trace is a directory. Each process writes its sections into a file there as they end. Empty
	// disables this.
	Trace string
}

// section is one section of a worker. Its times are the attempt, the grant, and the start of the
// release, by the machine's clock.
type section struct {
	Worker                     string
	Token                      uint64
	Asked, Had, Gave, Released time.Duration
	// Valid reports whether the lease was valid at the end of the section.
	Valid bool
	// RoundTrip is the probe's round trip, or 0 without a probe.
	RoundTrip time.Duration
}

// account is the result of a worker.
type account struct {
	Worker   string
	Sections int
	// Longest is the longest wait, including waits that did not get the lock.
	Longest time.Duration
}

// worker starts a process that connects at once and begins its work at start.
func (c *cluster) worker(w task) *child {
	c.t.Helper()
	return c.spawn("work", childWork+"="+encode(w))
}

// start tells a worker to begin once it is ready. More input lines ask the process for a report or
// for its end: "cpu" for its processor time, "stop" for its end. The end of the input stops it
// too.
func (p *child) start(t *testing.T) {
	t.Helper()
	p.line(t, "ready")
	p.send(t, "start")
}

func (p *child) send(t *testing.T, what string) {
	t.Helper()
	_, err := fmt.Fprintln(p.in, what)
	require.NoError(t, err)
}

// cpu returns the processor time that the process has used so far.
func (p *child) cpu(t *testing.T) time.Duration {
	t.Helper()
	p.send(t, "cpu")
	used, err := time.ParseDuration(p.line(t, "cpu"))
	require.NoError(t, err)
	return used
}

// stop ends the workers and returns the result of each.
func stop(t *testing.T, processes ...*child) (accounts []account) {
	t.Helper()
	for _, p := range processes {
		p.send(t, "stop")
	}
	for _, p := range processes {
		for _, line := range p.lines() {
			kind, text, _ := strings.Cut(line, " ")
			switch kind {
			case "account":
				var one account
				require.NoError(t, json.Unmarshal([]byte(text), &one), "%s", line)
				accounts = append(accounts, one)
			case "failed":
				t.Error(line)
			}
		}
	}
	return accounts
}

// sectionsIn returns the sections that processes have written into a directory, sorted by token.
func sectionsIn(t *testing.T, dir string) (all []section) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			var one section
			if strings.HasSuffix(line, "\n") { // An incomplete line is from a killed process.
				require.NoError(t, json.Unmarshal([]byte(line), &one), "%s", line)
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b section) int { return cmp.Compare(a.Token, b.Token) })
	return all
}

// awaitSections waits until processes have written the given number of sections into a directory.
// The number does not depend on the speed of the machine.
func awaitSections(t *testing.T, dir string, want int) {
	t.Helper()
	eventually(t, atMost, func() bool { return len(sectionsIn(t, dir)) >= want }, "%d sections", want)
}

func init() { childRoles["work"] = workInProcess }

// workInProcess runs the role "work".
func workInProcess(t *testing.T) {
	var w task
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(childWork)), &w))
	ctx, cancel := context.WithCancel(t.Context())
	var clients []*quorumlock.Client
	for range w.Clients {
		client := w.client(t, strings.Split(os.Getenv(childNodes), ",")...)
		require.NoError(t, acquire(t, client.RedLock("warm:"+strconv.Itoa(os.Getpid()))).Release(t.Context()))
		clients = append(clients, client)
	}
	fmt.Println("ready")
	orders := bufio.NewScanner(os.Stdin)
	orders.Scan() // The first line starts the work.
	out, trace := &output{w: os.Stdout}, &output{w: io.Discard}
	if w.Trace != "" {
		file, err := os.Create(filepath.Join(w.Trace, strconv.Itoa(os.Getpid())))
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
		trace.w = file
	}
	var workers sync.WaitGroup
	for i, client := range clients {
		for j := range w.Workers {
			name := fmt.Sprintf("%d/%d/%d", os.Getpid(), i, j)
			workers.Go(func() { w.run(ctx, client, name, out, trace) })
		}
	}
	for orders.Scan() && orders.Text() != "stop" {
		if orders.Text() == "cpu" {
			out.say("cpu", processorTime(t).String())
		}
	}
	cancel()
	workers.Wait()
	for _, client := range clients {
		closeClient(t, client)
	}
	out.say("done")
}

// client returns a client that does the work on the nodes.
func (w task) client(t testing.TB, addresses ...string) *quorumlock.Client {
	t.Helper()
	return newClient(t, func(cfg *quorumlock.Config) {
		cfg.TTL = w.TTL
		if w.Far == 0 {
			cfg.Addresses = addresses
			return
		}
		for _, address := range addresses {
			cfg.Nodes = append(cfg.Nodes, farNode(t, address, w.Far))
		}
	})
}

// run is the loop of a worker.
func (w task) run(ctx context.Context, client *quorumlock.Client, name string, out, trace *output) {
	is := account{Worker: name}
	lock := client.RedLock(w.Name).With(quorumlock.LockOptions{Waiting: w.Waiting, NoHandover: w.NoHandover})
	for ctx.Err() == nil {
		s := section{Worker: name, Asked: now()}
		lease, err := lock.Acquire(ctx)
		s.Had = now()
		is.Longest = max(is.Longest, s.Had-s.Asked)
		if err != nil {
			if ctx.Err() == nil {
				out.say("failed", name+": "+err.Error())
			}
			continue
		}
		s.Token = lease.Token()
		if w.Probe { // The process has been idle by now, like a waiting one.
			pause(w.Hold)
			s.RoundTrip = roundTrip(ctx, client)
		}
		pause(w.Hold)
		s.Valid, s.Gave = lease.Err() == nil, now()
		_ = lease.Release(ctx)
		s.Released = now()
		is.Sections++
		trace.say(encode(s))
		pause(w.Pause)
	}
	out.say("account", encode(is))
}

// roundTrip measures the time to ask all nodes for an uncontended lock. It returns 0 if the
// attempt fails.
func roundTrip(ctx context.Context, client *quorumlock.Client) time.Duration {
	lock := client.RedLock("probe:" + strconv.Itoa(os.Getpid()))
	began := now()
	lease, err := lock.TryAcquire(ctx)
	took := now() - began
	if err != nil {
		return 0
	}
	_ = lease.Release(ctx)
	return took
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// now returns the time of a clock that all processes of this machine share.
func now() time.Duration { return clock.System().Now() }

// pause stands for work. It is no synchronization.
func pause(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

// output is the output of a process. It writes whole lines only.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) say(words ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.w, words...)
}

func encode(what any) string {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err) // This cannot happen for the structs above.
	}
	return string(text)
}
