package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// suffix is the extension of files with events.
const suffix = ".jsonl"

// Recorder writes the calls of one client process. When a method returns, the operating system has its event, so a
// process that is killed then does not lose it. A Recorder is safe for concurrent use.
//
// Its methods never fail the client. If an event cannot be written or is invalid (an empty name, a token 0 of a
// lock), the recorder writes nothing more. [Recorder.Err] and [Recorder.Close] return the reason. The file up to
// there is still a sound history.
type Recorder struct {
	client string
	clock  clock.Clock

	mu     sync.Mutex
	out    io.Writer
	closer io.Closer // nil if out is not the recorder's to close
	ops    uint64
	err    error
}

// NewRecorder writes to out, one Write per event, and does not close it. The client's name must differ from those of
// all other processes in the same history, including a process that this one replaces. All of them must use the same
// clock; nil means clock.System.
func NewRecorder(client string, out io.Writer, c clock.Clock) *Recorder {
	if c == nil {
		c = clock.System()
	}
	return &Recorder{client: client, clock: c, out: out}
}

// Create makes the file <client>.jsonl in an existing directory, with times by clock.System. It fails if the file
// exists: a process that replaces another needs a name of its own.
func Create(dir, client string) (*Recorder, error) {
	if client == "" || client != filepath.Base(client) {
		return nil, fmt.Errorf("faultinject: recording a history: %q cannot name a client and its file", client)
	}
	file, err := os.OpenFile(filepath.Join(dir, client+suffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("faultinject: recording the history of %s: %w", client, err)
	}
	r := NewRecorder(client, file, nil)
	r.closer = file
	return r, nil
}

// Err returns the first write error, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// errClosed is the error of recording after Close.
var errClosed = errors.New("it is closed")

// Close closes the file and returns the first write error. Later events are dropped. Closing again does nothing, and
// returns the same error.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closer != nil {
		r.fail(r.closer.Close())
		r.closer = nil
	}
	r.out = nil
	return r.err
}

func (r *Recorder) fail(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("faultinject: recording the history of %s: %w", r.client, err)
	}
}

// write appends a line if the reader would accept it. No line may follow a torn one.
func (r *Recorder) write(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		err = e.check()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return
	case r.out == nil:
		err = errClosed
	case err == nil:
		_, err = r.out.Write(append(line, '\n'))
	}
	r.fail(err)
}

// begin creates an event with the next number. The caller sets its call time.
func (r *Recorder) begin(kind Kind, worker int, names []string) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	return Event{Client: r.client, Worker: worker, Op: r.ops, Kind: kind, Names: names}
}

// now returns the time, but never 0, which means no time.
func (r *Recorder) now() time.Duration { return max(r.clock.Now(), 1) }

// Attempt is an acquisition in flight.
type Attempt struct {
	recorder *Recorder
	event    Event
}

// Acquire records the begin of an acquisition. Call it immediately before. The worker is a number for the goroutine.
// Report the result with Granted or Failed, once. Without either, the acquisition may have happened.
func (r *Recorder) Acquire(worker int, names ...string) *Attempt {
	return r.acquire(r.begin(Acquire, worker, slices.Clone(names)))
}

// AcquireRead is Acquire for a reader of the lock.
func (r *Recorder) AcquireRead(worker int, name string) *Attempt {
	e := r.begin(Acquire, worker, []string{name})
	e.Reads = true
	return r.acquire(e)
}

// AcquirePermits is Acquire for permits of a semaphore. size is the total number of permits in the client's
// configuration.
func (r *Recorder) AcquirePermits(worker int, semaphore string, permits, size int) *Attempt {
	e := r.begin(Acquire, worker, []string{semaphore})
	e.Of, e.Permits, e.Size = Semaphore, permits, size
	return r.acquire(e)
}

func (r *Recorder) acquire(e Event) *Attempt {
	e.Call = r.now()
	r.write(e)
	return &Attempt{recorder: r, event: e}
}

// Granted records that the acquisition gave a lease. Call it immediately after. The slots are the numbers of the
// permits, none for a lock. Another library's semaphore may have neither numbers nor tokens; its token is 0.
func (a *Attempt) Granted(owner string, token uint64, slots ...int) *Holding {
	e := a.event
	e.Return = a.recorder.now()
	e.Owner, e.Token, e.Slots = owner, token, slices.Clone(slots)
	a.recorder.write(e)
	return &Holding{recorder: a.recorder, grant: e}
}

// Failed records that the acquisition gave no lease.
func (a *Attempt) Failed(err error) {
	e := a.event
	e.Return = a.recorder.now()
	e.Error = reason(err, "no reason given")
	a.recorder.write(e)
}

// Holding is a granted lease. It is safe for concurrent use.
type Holding struct {
	recorder *Recorder
	grant    Event
}

// begin creates an event about the lease.
func (h *Holding) begin(kind Kind) Event {
	e := h.grant
	e.Op, e.Kind, e.Lease = h.recorder.begin(kind, e.Worker, e.Names).Op, kind, e.Op
	e.Call, e.Return = 0, 0
	return e
}

// Act checks the lease by calling valid, and records and returns its result. valid is the lease's Err, or a function
// that ends with it. An act proves more the less else valid does: the use of the lock comes after it. An act during
// which the process dies leaves no trace.
func (h *Holding) Act(valid func() error) error {
	e := h.begin(Act)
	e.Call = h.recorder.now()
	err := valid()
	e.Return = h.recorder.now()
	e.Error = reason(err, "")
	h.recorder.write(e)
	return err
}

// Release releases the lease by calling release, and records its times and its result, which it returns. After that
// call the lease must have ended, whatever the result. release must return nil only if the lease had not ended by
// itself.
func (h *Holding) Release(release func() error) error {
	return h.recorder.during(h.begin(Release), release)
}

// Downgrade turns a writer's lease into a reader's by calling downgrade, and records its times and its result, which
// it returns. From the call on, the lease must only be used to read. downgrade must return nil only if the lease had
// not ended by itself.
func (h *Holding) Downgrade(downgrade func() error) error {
	return h.recorder.during(h.begin(Downgrade), downgrade)
}

// Lost records that the lease has ended by itself.
func (h *Holding) Lost(cause error) {
	e := h.begin(Lost)
	e.Call = h.recorder.now()
	e.Return = e.Call
	e.Error = reason(cause, "")
	h.recorder.write(e)
}

// during records an event around a call.
func (r *Recorder) during(e Event, call func() error) error {
	e.Call = r.now()
	r.write(e)
	err := call()
	e.Return = r.now()
	e.Error = reason(err, "")
	r.write(e)
	return err
}

// reason returns the text of an error, and none if that text is empty.
func reason(err error, none string) string {
	if err == nil {
		return none
	}
	if text := err.Error(); text != "" {
		return text
	}
	return "an error without a text"
}
