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

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
)

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

	mu sync.Mutex
	// write keeps an event; it is nil once the recorder is closed. closer is nil if there is nothing to close.
	write  func(Event) error
	closer io.Closer
	ops    uint64
	err    error
}

// NewRecorder writes to out, one Write per event, and does not close it. The client's name must differ from the
// names of all other processes in the same history, including a process that this one replaces. All of them must use
// the same clock; nil means clock.System.
func NewRecorder(client string, out io.Writer, c clock.Clock) *Recorder {
	return newRecorder(client, c, func(e Event) error {
		line, err := json.Marshal(e)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return err
	})
}

func newRecorder(client string, c clock.Clock, write func(Event) error) *Recorder {
	if c == nil {
		c = clock.System()
	}
	return &Recorder{client: client, clock: c, write: write}
}

// Log collects the events of clients in one process. It is safe for concurrent use.
type Log struct {
	mu        sync.Mutex
	events    []Event
	recorders []*Recorder
}

// Recorder returns a recorder whose events the log collects. The client's name must be new in the log. All clients
// must use one clock.
func (l *Log) Recorder(client string, c clock.Clock) *Recorder {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := newRecorder(client, c, func(e Event) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
		return nil
	})
	l.recorders = append(l.recorders, r)
	return r
}

// History returns the history of all clients so far. It fails if an event was invalid.
func (l *Log) History() (*History, error) {
	l.mu.Lock()
	recorders, events := slices.Clone(l.recorders), slices.Clone(l.events)
	l.mu.Unlock()
	for _, r := range recorders {
		if err := r.Err(); err != nil && !errors.Is(err, errClosed) {
			return nil, err
		}
	}
	return New(events...)
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

// Err returns why the first event was lost, or nil: it could not be written, was invalid, or came after Close.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

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
	r.write = nil
	return r.err
}

func (r *Recorder) fail(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("faultinject: recording the history of %s: %w", r.client, err)
	}
}

// record writes an event if the reader would accept it. No event may follow one that was not written.
func (r *Recorder) record(e Event) {
	err := e.check()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return
	case r.write == nil:
		err = errClosed
	case err == nil:
		err = r.write(e)
	}
	r.fail(err)
}

// begin creates an event with the next number. The caller sets its call time.
func (r *Recorder) begin(kind Kind, worker int, name string) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	return Event{Client: r.client, Worker: worker, Op: r.ops, Kind: kind, Name: name}
}

// now returns the time, but never 0, which means no time.
func (r *Recorder) now() time.Duration { return max(r.clock.Now(), 1) }

// Attempt is an acquisition in flight.
type Attempt struct {
	recorder *Recorder
	event    Event
}

// Acquire records the begin of an acquisition, of one of its names. Call it immediately before. The worker is a number for the goroutine.
// Report the result with Granted or Failed, once. Without either, the acquisition may have happened.
func (r *Recorder) Acquire(worker int, name string) *Attempt {
	return r.acquire(r.begin(Acquire, worker, name))
}

// AcquireRead is Acquire for a reader of the lock.
func (r *Recorder) AcquireRead(worker int, name string) *Attempt {
	e := r.begin(Acquire, worker, name)
	e.Reads = true
	return r.acquire(e)
}

// AcquirePermits is Acquire for permits of a semaphore. size is the total number of permits in the client's
// configuration.
func (r *Recorder) AcquirePermits(worker int, semaphore string, permits, size int) *Attempt {
	e := r.begin(Acquire, worker, semaphore)
	e.Of, e.Permits, e.Size = Semaphore, permits, size
	return r.acquire(e)
}

// SizeSince says that the permits were requested at an earlier time than the recorded begin, which only says that they were
// granted since then. The sizes that the semaphore can have had since the request count.
func (a *Attempt) SizeSince(requested time.Duration) { a.event.SizeSince = requested }

func (r *Recorder) acquire(e Event) *Attempt {
	e.Call = r.now()
	r.record(e)
	return &Attempt{recorder: r, event: e}
}

// Granted records that the acquisition gave a lease. Call it immediately after. The slots are the numbers of the
// permits, none for a lock.
func (a *Attempt) Granted(owner string, token uint64, slots ...int) *Holding {
	e := a.event
	e.Return = a.recorder.now()
	e.Owner, e.Token, e.Slots = owner, token, slices.Clone(slots)
	a.recorder.record(e)
	return &Holding{recorder: a.recorder, grant: e}
}

// Failed records that the acquisition gave no lease.
func (a *Attempt) Failed(err error) {
	e := a.event
	e.Return = a.recorder.now()
	e.Error = reason(err, "no reason given")
	a.recorder.record(e)
}

// Holding is a granted lease. It is safe for concurrent use.
type Holding struct {
	recorder *Recorder
	grant    Event
}

func (h *Holding) begin(kind Kind) Event {
	e := h.grant
	e.Op, e.Kind, e.Lease = h.recorder.begin(kind, e.Worker, e.Name).Op, kind, e.Op
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
	h.recorder.record(e)
	return err
}

// Release releases the lease by calling release, and records its times and its result, which it returns. After that
// call the lease must have ended, even after an error. release must return nil only if the lease had not ended by
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
	h.recorder.record(e)
}

func (r *Recorder) during(e Event, call func() error) error {
	e.Call = r.now()
	r.record(e)
	err := call()
	e.Return = r.now()
	e.Error = reason(err, "")
	r.record(e)
	return err
}

// failed sets the reason of a failure. A latch may name one that the history must explain.
func (e *Event) failed(err error) {
	e.Error = reason(err, "")
	var set *quorumlock.LatchSetError
	switch {
	case errors.Is(err, quorumlock.ErrLatchNotSet):
		e.Refusal = NotSet
	case errors.Is(err, quorumlock.ErrLatchDeleted):
		e.Refusal = Deleted
	case errors.As(err, &set):
		e.Refusal, e.Found = SetOtherwise, set.Count
	}
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

// Resize sets the number of permits of a semaphore by calling resize, and records its times and its result, which it
// returns. After an error, the new number may count or not.
func (r *Recorder) Resize(worker int, semaphore string, size int, resize func() error) error {
	e := r.begin(Resize, worker, semaphore)
	e.Of, e.Size = Semaphore, size
	return r.during(e, resize)
}

// Latch makes a call of a latch, and records its times and its result, which it returns. which has the Worker and the
// Kind of the call, the Name of the latch, the Count of a Set, and the ID of a CountDown. Only a Count has a result
// besides the error: how many ids are missing.
//
// An error of a Set, a CountDown or a Delete means that the change may have happened, or may still happen; of an Await
// or a Count it proves nothing. A Count during which the process dies leaves no trace.
func (r *Recorder) Latch(which Event, call func() (left int, err error)) (left int, err error) {
	e := r.begin(which.Kind, which.Worker, which.Name)
	e.Of, e.Count, e.ID, e.Call = Latch, which.Count, which.ID, r.now()
	if e.Kind != Count {
		r.record(e)
	}
	left, err = call()
	e.Return = r.now()
	if e.failed(err); err == nil && e.Kind == Count {
		e.Count = left
	}
	r.record(e)
	return left, err
}
