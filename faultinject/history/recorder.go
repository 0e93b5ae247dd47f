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

// suffix ends the names of files with events.
const suffix = ".jsonl"

// Recorder writes what one client process does. Each event is in the hands of the
// operating system when the method that recorded it returns, so that a process that is
// killed then does not lose it. It is safe for concurrent use.
//
// Its methods never fail the client. If an event cannot be written, or is none (a name is
// empty, the token of a lock 0), none is written after it, and
// [Recorder.Err] and [Recorder.Close] say why; the beginning is still a sound history.
type Recorder struct {
	client string
	clock  clock.Clock

	mu     sync.Mutex
	out    io.Writer
	closer io.Closer // nil if out is not the recorder's to close
	ops    uint64
	err    error
}

// NewRecorder writes to out, one Write per event, and does not close it. The name of the
// client must differ from those of all others whose events will be in one history, also
// from that of the process in whose place this one was started. All of them must have
// the same clock: nil stands for clock.System.
func NewRecorder(client string, out io.Writer, c clock.Clock) *Recorder {
	if c == nil {
		c = clock.System()
	}
	return &Recorder{client: client, clock: c, out: out}
}

// Create makes the file <client>.jsonl in a directory, which must exist, and writes to it,
// with times by clock.System. It fails if there is such a file: a process that takes the
// place of another needs a name of its own.
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

// Err is the first error in writing, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// errClosed is what comes of recording after Close.
var errClosed = errors.New("it is closed")

// Close closes the file, and returns the first error in writing. What is recorded later is
// dropped. Closing again does nothing, and returns the same.
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

// fail keeps the first error.
func (r *Recorder) fail(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("faultinject: recording the history of %s: %w", r.client, err)
	}
}

// write appends a line, if readers would take it. One that was cut short must stay the
// last.
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

// begin is an event of the next number. Its call is yet to be set.
func (r *Recorder) begin(kind Kind, worker int, names []string) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	return Event{Client: r.client, Worker: worker, Op: r.ops, Kind: kind, Names: names}
}

// now is the time, and never 0, which stands for none.
func (r *Recorder) now() time.Duration { return max(r.clock.Now(), 1) }

// Attempt is an acquisition under way.
type Attempt struct {
	recorder *Recorder
	event    Event
}

// Acquire records that an acquisition begins; it is to be called right before. The worker
// is a number for the goroutine. How it ends is for Granted or Failed to say, one of them
// once; without either it may have happened.
func (r *Recorder) Acquire(worker int, names ...string) *Attempt {
	return r.acquire(r.begin(Acquire, worker, slices.Clone(names)))
}

// AcquireRead is Acquire for a reader of the lock.
func (r *Recorder) AcquireRead(worker int, name string) *Attempt {
	e := r.begin(Acquire, worker, []string{name})
	e.Reads = true
	return r.acquire(e)
}

// AcquirePermits is Acquire for so many permits of a semaphore, which has as many in all by the
// configuration of the client as size says.
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

// Granted records that the acquisition gave a lease; it is to be called right after. The
// slots are the numbers of the permits, none for a lock. The semaphore of another library may
// have neither numbers nor tokens: then the token is 0.
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

// Holding is a lease that was granted. It is safe for concurrent use.
type Holding struct {
	recorder *Recorder
	grant    Event
}

// begin is an event about the lease.
func (h *Holding) begin(kind Kind) Event {
	e := h.grant
	e.Op, e.Kind, e.Lease = h.recorder.begin(kind, e.Worker, e.Names).Op, kind, e.Op
	e.Call, e.Return = 0, 0
	return e
}

// Act looks whether the lease is valid by calling valid, which is the lease's Err or ends
// with it, and records what it says. It returns the same. The less valid does besides,
// the more the act proves: what the holder does with its right comes after it. An act
// that the process does not survive leaves no trace.
func (h *Holding) Act(valid func() error) error {
	e := h.begin(Act)
	e.Call = h.recorder.now()
	err := valid()
	e.Return = h.recorder.now()
	e.Error = reason(err, "")
	h.recorder.write(e)
	return err
}

// Release gives the lease back by calling release, and records when, and what it says. It
// returns the same. The call of release must end the lease whatever it returns, and
// return nil only if the lease had not ended by itself.
func (h *Holding) Release(release func() error) error {
	return h.recorder.during(h.begin(Release), release)
}

// Downgrade makes the lease of a writer that of a reader by calling downgrade, and records when,
// and what it says. It returns the same. From the call on the lease must only be used to read,
// whatever comes of it, and nil must mean that it had not ended by itself.
func (h *Holding) Downgrade(downgrade func() error) error {
	return h.recorder.during(h.begin(Downgrade), downgrade)
}

// Lost records that the lease was seen to have ended by itself, by now.
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

// reason is the text of an error. An error without a text must not look like none.
func reason(err error, none string) string {
	if err == nil {
		return none
	}
	if text := err.Error(); text != "" {
		return text
	}
	return "an error without a text"
}
