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

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/worker"
)

type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	lines   *bufio.Reader // of out
	errors  bytes.Buffer
}

func startChild(job worker.Job) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{command: exec.Command(program)}
	c.command.Env = append(os.Environ(), worker.Env+"=1")
	c.command.Stderr = &c.errors
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.command.Stdout, c.out, c.lines = theirs, out, bufio.NewReader(out)
	err = c.command.Start()
	_ = theirs.Close() // the worker has its own
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a worker: %w", err), out.Close())
	}
	if err := json.NewEncoder(c.in).Encode(job); err != nil {
		c.close()
		return nil, fmt.Errorf("give a worker its job: %w", err)
	}
	return c, nil
}

func (c *child) say() error {
	_, err := c.in.Write([]byte("\n"))
	return err
}

// hear waits for the next message of the worker and decodes it.
func (c *child) hear(into *cell.Outcome, deadline time.Time) error {
	if err := c.out.SetReadDeadline(deadline); err != nil {
		return err
	}
	line, err := c.lines.ReadBytes('\n')
	switch {
	case err == nil:
		return json.Unmarshal(line, into)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("a worker did not answer in time")
	}
	_ = c.command.Wait() // its last output explains the end, and is complete only now
	const most = 400
	text := strings.TrimSpace(c.errors.String())
	return errors.New("a worker ended: " + text[max(0, len(text)-most):])
}

func (c *child) close() {
	_ = c.in.Close()
	_ = c.command.Process.Kill() // the only error is that the process has ended
	_ = c.command.Wait()         // the error says that it was killed, or waited for before
	_ = c.out.Close()
}
