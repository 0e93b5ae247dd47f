package election_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// Environment variables of child processes, which run this same binary.
const (
	childName  = "QUORUMLOCK_ELECTION_CHILD"
	childNodes = "QUORUMLOCK_ELECTION_NODES"
)

const realTTL = 3 * time.Second

// patience bounds every wait of a test. It is long enough for a busy machine.
const patience = time.Minute

func realConfig(addresses []string) quorumlock.Config {
	return quorumlock.Config{
		Addresses: addresses, TTL: realTTL, Logger: slog.New(slog.DiscardHandler),
		NodeTimeoutMin: realTTL / 3, NodeTimeoutMax: realTTL / 3, // Long timeouts keep terms from ending because the machine is busy.
	}
}

// startServers starts real servers and opens them, as an operator does.
func startServers(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for _, s := range redisproc.StartN(t, n) {
		addresses = append(addresses, s.Addr())
	}
	_, err := admin.Init(t.Context(), realConfig(addresses))
	require.NoError(t, err)
	return addresses
}

// TestChildProcess runs in child processes of other tests, and does nothing on its own. It writes "lead TOKEN" and
// "stopped TOKEN". It answers each line "ask" with "leads" or "ended", by the context of its latest term.
func TestChildProcess(t *testing.T) {
	name := os.Getenv(childName)
	if name == "" {
		return
	}
	client, err := quorumlock.New(realConfig(strings.Split(os.Getenv(childNodes), ",")))
	require.NoError(t, err)
	defer func() { _ = client.Close(context.Background()) }()
	e := election.New(client, "office", election.Config{Name: name, RestMin: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	latest, over := context.WithCancel(ctx)
	over() // This candidate has not led yet.
	go func() {
		defer cancel() // The parent has closed the pipe.
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
			switch orders.Text() {
			case "ask":
				mu.Lock()
				fmt.Println(map[bool]string{true: "leads", false: "ended"}[latest.Err() == nil])
				mu.Unlock()
			case "resign":
				e.Resign()
			case "end":
				return
			}
		}
	}()
	err = e.Run(ctx, func(ctx context.Context, term election.Term) error {
		mu.Lock()
		latest = ctx
		mu.Unlock()
		fmt.Println("lead", term.Token)
		<-ctx.Done()
		fmt.Println("stopped", term.Token, time.Now().UnixNano())
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

// child is a candidate in another process.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.Writer

	terms   chan uint64
	stopped chan string
	answers chan string
}

// spawn starts a candidate in a child process. The process ends with the test, or when this process ends.
func spawn(t *testing.T, name string, nodes []string) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run=^TestChildProcess$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), childName+"="+name, childNodes+"="+strings.Join(nodes, ","), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{
		name: name, cmd: cmd, in: in,
		terms: make(chan uint64, 100), stopped: make(chan string, 100), answers: make(chan string, 100),
	}
	var reader sync.WaitGroup
	reader.Go(func() { c.read(t, out) })
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // This also ends a stopped process.
		reader.Wait()
		_ = cmd.Wait()
	})
	return c
}

func (c *child) read(t *testing.T, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "lead":
			token, err := strconv.ParseUint(rest, 10, 64)
			if err != nil {
				t.Error(err)
			}
			c.terms <- token
		case "stopped":
			c.stopped <- rest
		case "leads", "ended":
			c.answers <- word
		}
	}
}

func (c *child) order(t *testing.T, word string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, word)
	require.NoError(t, err)
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case x := <-from:
		return x
	case <-time.After(patience):
		require.Fail(t, "timed out waiting for "+what)
		panic("unreachable")
	}
}

// party is several candidates, and the current leader.
type party struct {
	t        *testing.T
	nodes    []string
	children []*child
	leader   *child
	last     uint64
}

func newParty(t *testing.T, n int) *party {
	t.Helper()
	p := &party{t: t, nodes: startServers(t, 5)}
	for i := range n {
		p.children = append(p.children, spawn(t, fmt.Sprintf("candidate %d", i), p.nodes))
	}
	p.elected(nil)
	return p
}

// elected waits until a candidate other than but leads, and requires that its token is larger than all before.
func (p *party) elected(but *child) {
	p.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		require.True(p.t, time.Now().Before(deadline), "no candidate was elected in time")
		for _, c := range p.children {
			if c == but {
				continue
			}
			select {
			case token := <-c.terms:
				require.Greater(p.t, token, p.last, "tokens grow")
				p.leader, p.last = c, token
				return
			default:
			}
		}
		time.Sleep(time.Millisecond)
	}
}
