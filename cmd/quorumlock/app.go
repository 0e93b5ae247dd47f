package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// app is one run of the command: its input and output, and the flags that all subcommands share.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr *output
	nodes  nodeFlags
	// verbose logs what happens, not only what fails.
	verbose bool
	// advised is set when the user has been told how to deal with the nodes.
	advised bool
}

// say prints one message to the user, on stderr: stdout is for results.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "quorumlock: "+format+"\n", args...)
}

// advise prints advice about an error, once.
func (a *app) advise(err error) {
	if advice := text.Advice(err); advice != "" && !a.advised {
		a.advised = true
		a.say("%s", advice)
	}
}

// logger logs everything to stderr with --verbose, and nothing without. Messages that the user must see are printed
// as sentences.
func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// print prints a report. If too few nodes answered, it returns an error without a message, because the report has the
// reason.
func (a *app) print(report string, noQuorum bool) error {
	_, err := io.WriteString(a.stdout, report)
	if err == nil && noQuorum {
		return exit.Silent(exit.NoQuorum)
	}
	return err
}

// output lets the log, the messages and a command's output share one writer. A goroutine of its own writes, because a reader
// that reads no more must not keep a command from being stopped, nor a lock from being released.
type output struct {
	w io.Writer

	mu     sync.Mutex
	queue  [][]byte
	lost   int  // texts for which there was no room
	closed bool // no further text is accepted
	// idle is closed when the goroutine ends; nil without one.
	idle chan struct{}
}

// maxQueued bounds how many texts wait for a reader.
const maxQueued = 1000

// Write never fails, and does not wait.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || len(o.queue) == maxQueued {
		o.lost++
		return len(p), nil
	}
	o.queue = append(o.queue, bytes.Clone(p))
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.drain()
	}
	return len(p), nil
}

func (o *output) drain() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			close(o.idle)
			o.idle = nil
			o.mu.Unlock()
			return
		}
		next := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		_, _ = o.w.Write(next) // there is no other place to report a failure
	}
}

// close waits until all is written.
func (o *output) close() {
	o.mu.Lock()
	idle, lost := o.idle, o.lost
	o.closed = true
	o.mu.Unlock()
	if idle != nil {
		<-idle
	}
	if lost > 0 {
		fmt.Fprintf(o.w, "quorumlock: %d further messages were not written in time\n", lost)
	}
}

// direct returns the writer for a command: a file itself rather than a pipe to it. Then a terminal stays a terminal,
// and no copying outlasts the command.
func (o *output) direct() io.Writer {
	if f, ok := o.w.(*os.File); ok {
		return f
	}
	return o
}
