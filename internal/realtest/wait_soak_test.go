//go:build unix

package realtest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

const (
	// stormSpan is the duration of the faults. calmSpan is the time without faults after them.
	stormSpan, calmSpan = 4 * time.Second, 4 * time.Second
	// maxIdle is how long a wanted lock may stay free after the faults.
	maxIdle = 1500 * time.Millisecond
	// mostlyIdle is the limit for 95 of 100 cases. A waiter that missed its wake polls after nearly a
	// second.
	mostlyIdle = 200 * time.Millisecond
)

// soak runs a number of processes that contend during faults.
type soak struct {
	*cluster
	t   *testing.T
	dir string
	// longest is the time that exceeded its bound by most, and bound and what are of it.
	longest, bound time.Duration
	what           string

	mu        sync.Mutex
	processes []*child
	// killed maps the ids of killed processes to the times of their deaths.
	killed map[string]time.Duration
	counts map[string]int
}

// TestRealNoLostWake breaks clients, servers and connections. After the faults, no lock may stay
// free for long while a client waits for it.
func TestRealNoLostWake(t *testing.T) {
	s := &soak{cluster: startCluster(t, 5), t: t, dir: t.TempDir(), killed: map[string]time.Duration{}, counts: map[string]int{}}
	childTimeout += *soakSpan
	t.Cleanup(func() { childTimeout -= *soakSpan })
	for range 4 {
		s.processes = append(s.processes, s.contender())
	}
	for _, p := range s.processes {
		p.line(t, "ready")
	}
	var calms [][2]time.Duration
	strain := testkit.MeasureStrain(t)
	for began := now(); len(calms) < 2 || now()-began < *soakSpan; {
		s.storm()
		from := now()
		<-time.After(calmSpan)
		calms = append(calms, [2]time.Duration{from, now()})
	}
	for _, p := range s.processes {
		require.NoError(t, p.in.Close())
	}
	for _, p := range s.processes {
		p.line(t, "done")
	}
	t.Logf("%d storms: %v", len(calms), s.counts)
	all := s.tenancies()
	for lock := range soakLocks {
		s.inspect(lock, all[lock], calms)
	}
	left := func() (keys []string) {
		for i := range s.servers {
			keys = append(keys, s.locks(i)...)
		}
		return keys
	}
	eventually(t, 6*time.Second, func() bool { return len(left()) == 0 }, "keys are left: %v", left)
	// A pass takes up to 20 wake-ups of goroutines and processes, one after another.
	if over := s.longest - s.bound; over > 0 {
		strain.Missing(t, over/20, "%s within %v, not %v", s.what, s.bound, s.longest)
	}
}

func (s *soak) bounded(took, bound time.Duration, what string) {
	if took-bound > s.longest-s.bound {
		s.longest, s.bound, s.what = took, bound, what
	}
}

func (s *soak) contender() *child { return s.spawn("soak", childDir+"="+s.dir) }

// inspect looks for times in which a lock was free while a client waited for it.
func (s *soak) inspect(lock string, all []tenancy, calms [][2]time.Duration) {
	s.t.Helper()
	// waited is the earliest start of a wait among this holder and all later ones.
	waited := make([]time.Duration, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		waited[i] = all[i].Asked
		if i+1 < len(all) {
			waited[i] = min(waited[i], waited[i+1])
		}
	}
	var idle []time.Duration
	for _, calm := range calms {
		free := max(calm[0], s.lastDeath(calm[0])+soakTTL)
		for i, one := range all {
			if one.Had >= calm[1] || one.Released < calm[0] {
				continue
			}
			wasted := one.Had - max(free, waited[i])
			if one.Had > free {
				idle = append(idle, wasted)
			}
			s.bounded(wasted, maxIdle, fmt.Sprintf("%s was free while a client waited, %v after the faults", lock, one.Had-wasted-calm[0]))
			free = max(free, one.Released)
		}
	}
	if len(idle) <= 10 {
		s.t.Fatalf("only %d grants of %s without faults", len(idle), lock)
	}
	s.t.Logf("%s: %d grants, %d of them without faults; free while a client waited: median %v, 99%%: %v, at most %v",
		lock, len(all), len(idle), quantile(idle, 0.5), quantile(idle, 0.99), quantile(idle, 1))
	s.bounded(quantile(idle, 0.95), mostlyIdle, "the time that "+lock+" was free while a client waited, in 19 of 20 cases")
}

// lastDeath returns the time of the last kill before an instant. The killed process may have had
// any lock without a record of it.
func (s *soak) lastDeath(before time.Duration) (last time.Duration) {
	for _, at := range s.killed {
		if at < before {
			last = max(last, at)
		}
	}
	return last
}

// tenancies returns the tenancies of each lock, sorted by their start. A killed process could not
// record the end of its tenancy. Such a tenancy gets the latest possible end.
func (s *soak) tenancies() map[string][]tenancy {
	s.t.Helper()
	all := make(map[string][]tenancy)
	files, err := os.ReadDir(s.dir)
	require.NoError(s.t, err)
	for _, file := range files {
		for _, one := range s.recorded(file.Name()) {
			all[one.Lock] = append(all[one.Lock], one)
		}
	}
	for _, some := range all {
		slices.SortFunc(some, func(a, b tenancy) int { return cmp.Compare(a.Had, b.Had) })
	}
	return all
}

func (s *soak) recorded(pid string) map[string]tenancy {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, pid))
	require.NoError(s.t, err)
	all := make(map[string]tenancy)
	for line := range strings.Lines(string(text)) {
		var one tenancy
		if !strings.HasSuffix(line, "\n") {
			break // The process was killed while it wrote.
		}
		require.NoError(s.t, json.Unmarshal([]byte(line), &one), "%s", line)
		switch {
		case one.Released == 0:
			one.Released = s.killed[pid] + soakTTL // A later line may correct this.
		case one.Undelivered:
			one.Released += soakTTL
		}
		all[one.Lock+strconv.FormatUint(one.Token, 10)] = one
	}
	return all
}

// storm causes faults for a while. When it returns, all servers work and the number of processes
// is the same as before.
func (s *soak) storm() {
	end := time.After(stormSpan)
	over := make(chan struct{})
	var faults sync.WaitGroup
	for _, breaks := range []func(){
		func() { s.breakServer(rand.IntN(3)) },
		func() { s.breakServer(3 + rand.IntN(2)) }, // At most two servers are broken at once.
		s.freeze,
		s.replace,
	} {
		faults.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(shorter(500 * time.Millisecond)):
					breaks()
				}
			}
		})
	}
	<-end
	close(over)
	faults.Wait()
}

func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// breakServer pauses a server or makes it drop its connections.
func (s *soak) breakServer(i int) {
	switch rand.IntN(3) {
	case 0:
		s.count("server paused")
		s.servers[i].Pause()
		<-time.After(shorter(2 * time.Second))
		s.servers[i].Resume()
	case 1:
		s.count("inboxes cut")
		_, _ = s.servers[i].Command("CLIENT", "KILL", "TYPE", "pubsub")
	case 2:
		s.count("connections cut")
		_, _ = s.servers[i].Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
}

// freeze stops a process. Half of the stops are so long that the process loses its lease.
func (s *soak) freeze() {
	s.count("process frozen")
	s.mu.Lock()
	p := s.processes[rand.IntN(len(s.processes))]
	s.mu.Unlock()
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // The process may have been killed.
	<-time.After(shorter([]time.Duration{100 * time.Millisecond, 3 * time.Second}[rand.IntN(2)]))
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

// replace kills a process one time in three and starts another one.
func (s *soak) replace() {
	if rand.IntN(3) > 0 {
		return
	}
	s.count("process killed")
	s.mu.Lock()
	i := rand.IntN(len(s.processes))
	p := s.processes[i]
	s.mu.Unlock()
	p.kill()
	s.mu.Lock()
	s.killed[strconv.Itoa(p.cmd.Process.Pid)] = now()
	s.mu.Unlock()
	next := s.contender()
	next.line(s.t, "ready")
	s.mu.Lock()
	s.processes[i] = next
	s.mu.Unlock()
}
