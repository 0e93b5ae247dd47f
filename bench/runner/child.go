package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/peer"
	"github.com/quorumlock/quorumlock/bench/worker"
)

// child is a worker process, as the runner sees it.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	lines   chan []byte // closed when there are no more
	errors  bytes.Buffer
}

// startChild starts a worker and sends it its job.
func startChild(p peer.Peer, job worker.Job) (*child, error) {
	command, err := workerOf(p)
	if err != nil {
		return nil, err
	}
	c := &child{command: command, lines: make(chan []byte, 1)}
	c.command.Stderr = &c.errors
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	go c.read(out)
	if err := json.NewEncoder(c.in).Encode(job); err != nil {
		c.close()
		return nil, fmt.Errorf("give a worker its job: %w", err)
	}
	return c, nil
}

// workerOf returns the worker program of a peer: its own, or this program.
func workerOf(p peer.Peer) (*exec.Cmd, error) {
	if p.Worker != nil {
		return p.Worker()
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), worker.Env+"=1")
	return command, nil
}

func (c *child) read(out io.Reader) {
	defer close(c.lines)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		c.lines <- line
	}
}

// say tells the worker to continue.
func (c *child) say() error {
	_, err := c.in.Write([]byte("\n"))
	return err
}

// hear waits for the next message of the worker and decodes it.
func (c *child) hear(into any, patience time.Duration) error {
	select {
	case line, ok := <-c.lines:
		if ok {
			return json.Unmarshal(line, into)
		}
		_ = c.command.Wait() // its last output explains the end, and is complete only now
		return errors.New("a worker ended: " + lastLines(c.errors.String()))
	case <-time.After(patience):
		return errors.New("a worker did not answer in time")
	}
}

// lastLines returns the end of a long text.
func lastLines(text string) string {
	const most = 400
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}

// close kills the worker and waits for it.
func (c *child) close() {
	_ = c.in.Close()
	_ = c.command.Process.Kill() // the only error is that the process has ended
	for range c.lines {          // lets the reading goroutine end
	}
	_ = c.command.Wait() // the error says that it was killed, or waited for before
}
