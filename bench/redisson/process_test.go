package redisson

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Process is the Java program with any number of clients. Its methods may be called concurrently.
type Process struct {
	command *exec.Cmd
	reading sync.WaitGroup

	mu      sync.Mutex
	in      io.WriteCloser
	last    int64 // id of the last request, caller or client
	waiting map[int64]chan<- response
	ended   bool
}

type request struct {
	ID        int64    `json:"id"`
	Op        string   `json:"op"`
	Client    string   `json:"client"`
	Caller    string   `json:"caller"`
	Kind      Kind     `json:"kind,omitempty"`
	Node      int      `json:"node"`
	Name      string   `json:"name,omitempty"`
	Patience  int64    `json:"patience"`
	Lease     int64    `json:"lease"`
	Addresses []string `json:"addresses,omitempty"`
	Watchdog  int64    `json:"watchdog"`
}

type response struct {
	ID    int64  `json:"id"`
	Value bool   `json:"value"`
	Error string `json:"error"`
}

// errEnded is the error of calls to a process that has ended.
var errEnded = errors.New("the program in Java has ended")

// Start builds and starts the program. Its memory is bounded.
func Start() (*Process, error) {
	if err := built(); err != nil {
		return nil, err
	}
	p := &Process{
		command: exec.Command("java", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-jar", program),
		waiting: map[int64]chan<- response{},
	}
	p.command.Stderr, p.command.WaitDelay = os.Stderr, waitDelay
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start Java: %w", err)
	}
	p.reading.Go(func() { p.read(out) })
	return p, nil
}

// Kill ends the process with SIGKILL, even a stopped one: its locks remain. It may be called again.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // the one error is that it has ended
	p.reading.Wait()
	_ = p.command.Wait() // killed is how it ends
}

func (p *Process) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r response
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			break // nothing of what follows can be relied upon
		}
		p.mu.Lock()
		answer := p.waiting[r.ID]
		delete(p.waiting, r.ID)
		p.mu.Unlock()
		answer <- r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for id, answer := range p.waiting {
		answer <- response{ID: id, Error: errEnded.Error()}
	}
	p.waiting = nil
}

// next returns a new id. Requires p.mu.
func (p *Process) next() int64 {
	p.last++
	return p.last
}

func (p *Process) newName() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.FormatInt(p.next(), 10)
}

// send sends a request. The answer arrives on the channel.
func (p *Process) send(r request) (<-chan response, error) {
	answer := make(chan response, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, errEnded
	}
	r.ID = p.next()
	p.waiting[r.ID] = answer
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		delete(p.waiting, r.ID)
		return nil, fmt.Errorf("%w: %w", errEnded, err)
	}
	return answer, nil
}

// do sends a request and waits for its answer. When ctx ends, it interrupts the caller, which must answer soon.
func (p *Process) do(ctx context.Context, r request) (bool, error) {
	answer, err := p.send(r)
	if err != nil {
		return false, err
	}
	select {
	case a := <-answer:
		return a.result(r)
	case <-ctx.Done():
	}
	if _, err := p.send(request{Op: "interrupt", Caller: r.Caller}); err != nil {
		return false, err
	}
	select {
	case a := <-answer:
		return a.result(r)
	case <-time.After(patience):
		return false, fmt.Errorf("redisson: %s %q: no answer: %w", r.Op, r.Name, ctx.Err())
	}
}

// patience is how long an interrupted caller may take.
const patience = 20 * time.Second

func (a response) result(r request) (bool, error) {
	if a.Error != "" {
		return false, &Error{Op: r.Op, Name: r.Name, Text: a.Error}
	}
	return a.Value, nil
}

// Error is an exception.
type Error struct {
	// Op and Name identify the call.
	Op, Name string
	// Text is the class of the exception and its message.
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("redisson: %s %q: %s", e.Op, e.Name, e.Text) }
