package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/process"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

// asReplica is the environment variable by which the test starts its own binary as a replica.
const asReplica = "SERVICE_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(asReplica) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// line is a line of the log of a replica.
type line struct {
	Time    time.Time
	Level   string
	Msg     string
	Address string
	Token   uint64
	Err     string
	Held    time.Duration
	Names   []string
	Job     string
	replica *replica
	text    string
}

// replica is a process of the service.
type replica struct {
	name    string
	process *os.Process
	ended   <-chan struct{}
	address string
	// connecting counts the requests that have no connection yet.
	connecting sync.WaitGroup
	// late is set if it was frozen, and mistake if it is refused.
	late, mistake bool
}

// request is a deposit that a caller asked for.
type request struct {
	account      string
	began, ended time.Time
	err          error
}

// outage is a time for which failures are explained, because too few nodes gave locks.
type outage struct{ began, ended time.Time }

// operation is a service with its replicas, its callers and its operator.
type operation struct {
	*testing.T
	command  string
	ledger   *ledger
	url      string
	servers  []faultinject.Server
	outages  []outage
	began    time.Time
	stopLoad func()

	mu       sync.Mutex
	started  int
	replicas []*replica
	lines    []line
	requests []request
}

func (o *operation) list(nodes ...int) string {
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, o.servers[n-1].Addr())
	}
	return strings.Join(addresses, ",")
}

// logOf is the standard error of a replica.
type logOf struct {
	*operation
	*replica
	rest string // the beginning of a line
}

func (l *logOf) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range strings.Lines(l.rest + string(text)) {
		if l.rest = t; !strings.HasSuffix(t, "\n") {
			break
		}
		l.rest = ""
		parsed := line{replica: l.replica, text: l.name + ": " + t}
		if json.Unmarshal([]byte(t), &parsed) != nil {
			parsed.Level = "PANIC"
		}
		if parsed.Msg == "serving" {
			l.address = parsed.Address
		}
		l.lines = append(l.lines, parsed)
		_, _ = io.WriteString(l.Output(), parsed.text)
	}
	return len(text), nil
}

// start starts a replica, and waits until it is ready or has ended.
func (o *operation) start(settings []string, mistake bool) (*replica, bool) {
	o.started++
	r := &replica{name: fmt.Sprintf("replica-%d", o.started), mistake: mistake}
	exe, err := os.Executable()
	require.NoError(o, err)
	cmd := exec.Command(exe, append(slices.Clip(settings), "--address", "127.0.0.1:0", "--ledger", o.url,
		"--night", night.String(), "--drain", "50ms", "--node-timeout", "333ms")...) // a third of the TTL, for busy machines
	cmd.Env = append(os.Environ(), asReplica+"=1")
	cmd.Stderr = &logOf{operation: o, replica: r}
	r.ended, err = redisproc.Spawn(cmd)
	require.NoError(o, err)
	r.process = cmd.Process
	o.Cleanup(func() {
		_ = r.process.Kill()
		<-r.ended
	})
	for {
		select {
		case <-r.ended:
			return r, false
		case <-time.After(5 * time.Millisecond):
		}
		o.mu.Lock()
		address := r.address
		o.mu.Unlock()
		if address == "" {
			continue
		}
		answer, err := http.Get("http://" + address + "/ready")
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return r, true
		}
	}
}

// deploy gives all replicas these settings, one after the other.
func (o *operation) deploy(what string, settings ...string) {
	o.Logf("deploy: %s: %v", what, settings)
	o.mu.Lock()
	former := slices.Clone(o.replicas)
	o.mu.Unlock()
	for i := range replicas {
		r, ready := o.start(settings, false)
		require.True(o, ready, "%s: %s", what, o.errors(r))
		o.mu.Lock()
		o.replicas = append(o.replicas, r)
		o.mu.Unlock()
		if i < len(former) {
			o.end(former[i])
		}
	}
	for _, r := range former {
		<-r.ended
	}
}

// end asks a replica to end, while it serves the requests that it has.
func (o *operation) end(r *replica) {
	o.mu.Lock()
	o.replicas = slices.DeleteFunc(o.replicas, func(other *replica) bool { return other == r })
	o.mu.Unlock()
	r.connecting.Wait()
	require.NoError(o, r.process.Signal(syscall.SIGTERM))
}

// refused tries to give a replica settings that nodes refuse. It must end without being ready, and say why.
func (o *operation) refused(why string, settings ...string) {
	o.Logf("deploy a mistake: %v", settings)
	r, ready := o.start(settings, true)
	require.False(o, ready)
	require.Contains(o, o.errors(r), why)
}

func (o *operation) errors(r *replica) (text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lines {
		if l.replica == r && l.Level != "INFO" {
			text += l.text
		}
	}
	return text
}

// run runs the command quorumlock, which must succeed.
func (o *operation) run(args ...string) string {
	out, err := exec.CommandContext(o.Context(), o.command, args...).CombinedOutput()
	o.Logf("quorumlock %s\n%s", strings.Join(args, " "), out)
	require.NoError(o, err)
	return string(out)
}

func (o *operation) fault(text string) {
	plan, err := faultinject.ParsePlan(strings.NewReader(text))
	require.NoError(o, err)
	require.NoError(o, plan.Run(o.Context(), faultinject.Nodes(o.servers), func(line string) { o.Log(line) }))
}

// planned is a step of "quorumlock nodes plan".
var planned = regexp.MustCompile(`(?m)^\d+\. (.*): give all programs this list, in any order(, with AllowEven)?\.\n\n     (\S+)\n\n` +
	`   When the last one has it, wait for (\S+?)(?:\. That node may be stopped\.|, and until this exits with 0:\n\n     quorumlock (.*))\n`)

// move changes the nodes, as "quorumlock nodes plan" says. At each step there is a fault.
func (o *operation) move(from, to []int, faults ...string) {
	plan := o.run(append([]string{"nodes", "plan", o.list(from...), o.list(to...)}, limits(ttl, skew, 0)...)...)
	steps := planned.FindAllStringSubmatch(plan, -1)
	require.Len(o, steps, len(faults))
	for i, s := range steps {
		what, even, list, ready := s[1], s[2] != "", s[3], s[5]
		wait, err := time.ParseDuration(s[4])
		require.NoError(o, err)
		settings := append(limits(ttl, skew, 0), "--nodes", list)
		if even {
			settings = append(settings, "--allow-even")
		}
		o.deploy(what, settings...)
		over := time.After(wait)
		if ready != "" {
			o.run(append(strings.Fields(ready), "--wait", "1m")...)
		}
		o.fault(faults[i])
		<-over
		o.ready(settings...) // the next fault must be the only one
	}
	for _, n := range from {
		if !slices.Contains(to, n) {
			require.NoError(o, o.servers[n-1].Stop(o.Context()))
		}
	}
}

// ready waits until all nodes grant locks.
func (o *operation) ready(settings ...string) {
	o.run(append([]string{"ready", "--multi", "--wait", "1m"}, settings...)...)
}

// limits are flags of the service, and of quorumlock.
func limits(ttl, skew, recovery time.Duration) []string {
	flags := []string{"--max-ttl", ttl.String(), "--max-clock-skew", skew.String()}
	if recovery > 0 {
		flags = append(flags, "--recovery", recovery.String())
	}
	return flags
}

const (
	ttl, skew             = time.Second, 100 * time.Millisecond
	longerTTL, longerSkew = 1100 * time.Millisecond, 150 * time.Millisecond
	night                 = time.Second
	replicas, accounts    = 3, 4
)

// TestNodesAndLimitsChangeUnderLoad takes three replicas from three nodes to five, replaces a node, goes back to three nodes,
// makes the limits larger and smaller again, freezes the leader, and lets a majority fail, all under load.
func TestNodesAndLimitsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	strain := testkit.MeasureStrain(t)
	o := &operation{T: t, command: filepath.Join(t.TempDir(), "quorumlock"), ledger: newLedger()}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", o.command, "../../cmd/quorumlock").CombinedOutput()
	require.NoError(t, err, "%s", out)
	group, err := process.Start(t.Context(), 6)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, group.Close()) })
	o.servers = group.Servers()
	server := httptest.NewServer(o.ledger)
	t.Cleanup(server.Close)
	o.url = server.URL

	first := append(limits(ttl, skew, 0), "--nodes", o.list(1, 2, 3))
	o.run(append([]string{"init"}, first...)...)
	o.deploy("the first list", first...)
	o.load()
	o.refused("lists of nodes differ", append(limits(ttl, skew, 0), "--nodes", o.list(1, 2, 3, 4, 5))...)
	o.move([]int{1, 2, 3}, []int{1, 2, 3, 4, 5}, "0s kill n2 for 300ms", "0s pause n1 for 1200ms")
	o.move([]int{1, 2, 3, 4, 5}, []int{1, 3, 4, 5, 6}, "0s part -n4 for 1s", "0s kill n3 for 500ms")
	o.move([]int{1, 3, 4, 5, 6}, []int{4, 5, 6}, "0s pause n5 for 1s", "0s part -n6 for 500ms")

	// The limits, as docs/on-call.md says.
	nodes := []string{"--nodes", o.list(4, 5, 6)}
	o.refused("settings differ", append(limits(longerTTL, longerSkew, 0), nodes...)...)
	recovery := longerTTL + longerSkew
	o.deploy("a longer recovery", append(limits(ttl, skew, recovery), nodes...)...)
	over := time.After(3 * (ttl + skew))
	o.fault("0s kill n4 for 300ms")
	<-over
	o.ready(append(limits(ttl, skew, recovery), nodes...)...)
	o.deploy("larger limits", append(limits(longerTTL, longerSkew, 0), nodes...)...)
	o.freezeLeader()
	o.fault("0s pause n6 for 500ms")
	o.ready(append(limits(longerTTL, longerSkew, 0), nodes...)...)
	o.deploy("smaller limits", append(limits(ttl, skew, recovery), nodes...)...)
	over = time.After(3 * recovery)
	o.outage("0s kill n4 for 1200ms\n0s kill n5 for 1200ms", append(limits(ttl, skew, recovery), nodes...)...)
	<-over
	o.deploy("the recovery of these limits", append(limits(ttl, skew, 0), nodes...)...)
	o.stopLoad()
	o.check(strain)
}

// outage lets a majority fail. Failures are explained until all nodes grant locks again.
func (o *operation) outage(faults string, settings ...string) {
	began := time.Now()
	o.fault(faults)
	o.ready(settings...)
	o.outages = append(o.outages, outage{began, time.Now()})
}

// freezeLeader freezes the leader until another replica leads. The failures of the frozen one are explained.
func (o *operation) freezeLeader() {
	var r *replica
	require.Eventually(o, func() bool {
		leader := o.leader()
		o.mu.Lock()
		defer o.mu.Unlock()
		i := slices.IndexFunc(o.replicas, func(r *replica) bool { return r.name == leader })
		if i >= 0 {
			r = o.replicas[i]
			r.late = true
		}
		return i >= 0
	}, time.Minute, 5*time.Millisecond, "a replica that runs is elected")
	began := time.Now()
	require.NoError(o, r.process.Signal(syscall.SIGSTOP))
	require.Eventually(o, func() bool { return o.leader() != r.name }, time.Minute, 5*time.Millisecond)
	require.NoError(o, r.process.Signal(syscall.SIGCONT))
	o.outages = append(o.outages, outage{began, time.Now()})
}

// leader returns the replica that was elected last.
func (o *operation) leader() (name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.lines {
		if l.Msg == "election: elected" {
			name = l.replica.name
		}
	}
	return name
}

func (o *operation) explains(began, ended time.Time) bool {
	return slices.ContainsFunc(o.outages, func(u outage) bool { return began.Before(u.ended) && ended.After(u.began) })
}

// load begins to call the service.
func (o *operation) load() {
	o.began = time.Now()
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 6 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				o.call(fmt.Sprint("a", rand.N(accounts))) //nolint:gosec // chance decides, no secret
			}
		})
	}
	o.stopLoad = sync.OnceFunc(func() {
		close(stop)
		callers.Wait()
	})
	o.Cleanup(o.stopLoad)
}

// call asks one of the replicas for a deposit.
func (o *operation) call(account string) {
	o.mu.Lock()
	r := o.replicas[rand.N(len(o.replicas))] //nolint:gosec // chance decides, no secret
	r.connecting.Add(1)
	o.mu.Unlock()
	connected := sync.OnceFunc(r.connecting.Done)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected() }})
	q := request{account: account, began: time.Now()}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.address+"/accounts/"+account, nil)
	if err == nil {
		var answer *http.Response
		if answer, err = http.DefaultClient.Do(post); err == nil {
			if answer.StatusCode != http.StatusOK {
				text, _ := io.ReadAll(answer.Body)
				err = errors.New(answer.Status + ": " + string(text))
			}
			err = errors.Join(err, answer.Body.Close())
		}
	}
	connected()
	q.ended, q.err = time.Now(), err
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, q)
}

// loss is a lease that was lost. From its grant until it was reported, and calls have ended, another may have had the lock.
type loss struct {
	name       string
	replica    *replica
	from, till time.Time
}

// losses returns the losses that replicas have reported.
func (o *operation) losses() (all []loss) {
	for _, l := range o.lines {
		switch l.Msg {
		case "quorumlock: lease ended", "quorumlock: a lease was lost before its release":
			held := l.Held
			if held == 0 {
				held = 5 * time.Second // its release has found the loss, and does not say
			}
			for _, name := range l.Names {
				all = append(all, loss{name, l.replica, l.Time.Add(-held), l.Time.Add(5 * time.Second)})
			}
		}
	}
	return all
}

// check checks the promises. Tokens and exclusion hold always. That no lease is lost, no request fails and each night has its
// report can be broken by the outage, and by a machine that stalls.
func (o *operation) check(strain *testkit.Strain) {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.SortStableFunc(o.lines, func(a, b line) int { return a.Time.Compare(b.Time) })
	losses := o.losses()
	lost := func(name string, r *replica, at time.Time) bool {
		return slices.ContainsFunc(losses, func(l loss) bool {
			return l.name == name && (r == nil || l.replica == r) && l.from.Before(at) && at.Before(l.till)
		})
	}
	for _, w := range o.ledger.wrong {
		assert.True(o, lost(w.lock, nil, w.at), "%s: %s, and no lease of it was lost", w.lock, w.what)
	}
	var leader *replica
	var last uint64
	var unexplained []string
	failedReports := map[string]int{}
	for _, l := range o.lines {
		assert.NotEqual(o, "PANIC", l.Level, l.text)
		switch l.Msg {
		case "the job failed here":
			failedReports[l.Job]++
			continue // another replica may do it
		case "election: elected":
			assert.True(o, leader == nil || lost("auditor", leader, l.Time), "another leads: %s", l.text)
			assert.Greater(o, l.Token, last)
			leader, last = l.replica, l.Token
		case "election: term ended":
			if leader == l.replica {
				leader = nil
			}
		}
		failure := l.Level == "ERROR" || strings.Contains(l.Msg, "lease")
		if failure && !l.replica.late && !l.replica.mistake && !o.explains(l.Time, l.Time) {
			unexplained = append(unexplained, l.text)
		}
	}

	done, failed := map[string]int{}, map[string]int{}
	for _, q := range o.requests {
		if q.err == nil {
			done[q.account]++
			continue
		}
		failed[q.account]++
		if !o.explains(q.began, q.ended) {
			unexplained = append(unexplained, fmt.Sprintf("a deposit failed: %v", q.err))
		}
	}
	assert.Len(o, done, accounts)
	for account, n := range done {
		booked := len(o.ledger.bookings("account:" + account))
		assert.GreaterOrEqual(o, booked, n, "%s: what succeeded was booked", account)
		assert.LessOrEqual(o, booked, n+failed[account], "%s: what was booked was asked for", account)
	}
	reports := 0
	for tick := o.began.Truncate(night).Add(night); tick.Add(night).Before(time.Now()); tick = tick.Add(night) {
		job := "report@" + tick.UTC().Format(time.RFC3339)
		n := len(o.ledger.bookings(job))
		assert.LessOrEqual(o, n, 1+failedReports[job], job)
		if reports += n; n == 0 && !o.explains(tick, tick.Add(night)) {
			unexplained = append(unexplained, "no "+job)
		}
	}
	o.Logf("deposits: %v, failed: %v; %d reports; %d bookings of leaders, the last with token %d; %d lists and limits", done, failed, reports,
		len(o.ledger.bookings("auditor")), last, o.started/replicas-1)
	if len(unexplained) > 0 {
		strain.Missing(o.T, ttl/2, "no failure without an outage: %q", unexplained)
	}
}
