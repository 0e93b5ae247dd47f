package chaos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/node"
)

// client is a place for client processes, one after the other.
type client struct {
	settings settings
	// changing is locked while a process ends and the next one starts. down is set between the two if a fault ended it.
	changing sync.Mutex
	down     bool
	setups   []setup

	mu    sync.Mutex // the process, which is signalled also while it ends
	lives int
	cmd   *exec.Cmd
	stdin io.WriteCloser
	// ended is closed when the process ends. asked is set once it should.
	ended <-chan struct{}
	asked bool
	// early has the errors of processes that ended unasked.
	early error
}

// succeeded reports whether the history of the client's first process has a call that succeeded.
func (c *client) succeeded() bool {
	recorded, _ := os.ReadFile(filepath.Join(c.settings.Dir, c.settings.Label+".jsonl"))
	return slices.ContainsFunc(bytes.Split(recorded, []byte("\n")), func(event []byte) bool {
		return bytes.Contains(event, []byte(`"return":`)) && !bytes.Contains(event, []byte(`"error":`))
	})
}

// setup is a list of nodes with limits, and since when the client has both.
type setup struct {
	since  time.Duration
	nodes  []int
	limits node.Limits
}

// setup returns the current one, and next the one after a move.
func (c *client) setup() setup { return c.setups[len(c.setups)-1] }

func (c *client) next(m Move) setup {
	s := c.setup()
	if m.Nodes != nil {
		s.nodes = m.Nodes
	}
	s.limits = cmp.Or(m.Limits, s.limits)
	return s
}

// move asks the process to end, and then starts one with another setup. A fault may have ended it already.
func (c *client) move(next setup) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if !c.down {
		err := errors.Join(c.ask(), c.finish(clientsEnd))
		c.mu.Lock()
		c.early = errors.Join(c.early, err)
		c.mu.Unlock()
	}
	next.since = clock.System().Now()
	c.setups = append(c.setups, next)
	if c.down {
		return nil
	}
	return c.start()
}

func (c *client) murder() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.down = true
	return c.kill()
}

func (c *client) revive() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.down = false
	return c.start()
}

// start starts a process, with its own name in the history.
func (c *client) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = false
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("chaos: a client: %w", err)
	}
	c.lives++
	s := c.settings
	s.Label = c.label()
	s.Seed += uint64(1000 * c.lives)
	s.Limits, s.Nodes = c.setup().limits, nil
	for _, i := range c.setup().nodes {
		s.Nodes = append(s.Nodes, c.settings.Nodes[i])
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), environment+"="+string(text))
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	// A Ctrl-C does not reach the client: the program ends it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The client ends with the program, even if it is frozen and does not see the end of its standard input.
	if c.ended, err = redisproc.Spawn(c.cmd); err != nil {
		return fmt.Errorf("chaos: %s: %w", s.Label, err)
	}
	return nil
}

func (c *client) label() string {
	if c.lives > 1 {
		return fmt.Sprintf("%s.%d", c.settings.Label, c.lives)
	}
	return c.settings.Label
}

// gone reports whether the process has ended unasked, and keeps its error.
func (c *client) gone() bool {
	select {
	case <-c.ended:
		if c.asked {
			return true
		}
		how := "it is not known how"
		if c.cmd.ProcessState != nil {
			how = c.cmd.ProcessState.String()
		}
		c.early = errors.Join(c.early, fmt.Errorf("%s ended before it was asked to: %s", c.label(), how))
		return true
	default:
		return false
	}
}

func (c *client) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone() {
		return nil // the report has it
	}
	if err := c.cmd.Process.Signal(s); err != nil && !c.asked {
		return fmt.Errorf("chaos: %s: %v: %w", c.settings.Label, s, err)
	}
	return nil
}

// kill ends the process at once, frozen or not.
func (c *client) kill() error {
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.ended
	return nil
}

// ask asks the process to end: its workers end, and then it waits for finish.
func (c *client) ask() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked || c.gone() {
		return nil
	}
	c.asked = true
	if _, err := c.stdin.Write([]byte{0}); err != nil && !c.gone() {
		return fmt.Errorf("chaos: %s is asked to end: %w", c.settings.Label, err)
	}
	return nil
}

func (c *client) finish(within time.Duration) error {
	_ = c.stdin.Close()
	select {
	case <-c.ended:
		if state := c.cmd.ProcessState; state == nil || !state.Success() {
			return fmt.Errorf("it ended: %v", state)
		}
		return nil
	case <-time.After(within):
		return errors.Join(errors.New("it does not end"), c.kill())
	}
}
