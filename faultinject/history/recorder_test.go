package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/testkit"
)

func TestRecordedEventsAreReadBack(t *testing.T) {
	var out bytes.Buffer
	now := testkit.NewClock(time.Time{})
	r := NewRecorder("c1", &out, now)
	now.Advance(10)
	attempt := r.Acquire(2, "a")
	require.Equal(t, 1, strings.Count(out.String(), "\n"), "what begins is told of at once")
	now.Advance(5)
	held := attempt.Granted("owner", 17)
	require.NoError(t, held.Act(func() error { now.Advance(2); return nil }))
	require.EqualError(t, held.Release(func() error { now.Advance(3); return errors.New("no quorum") }), "no quorum")
	held.Lost(errors.New(""))
	r.Acquire(3, "c").Failed(context.DeadlineExceeded)
	r.Acquire(4, "c")
	require.NoError(t, r.Close())

	h, err := Read(&out)
	require.NoError(t, err)
	about := Event{Client: "c1", Worker: 2, Name: "a", Lease: 1, Owner: "owner", Token: 17}
	of := func(op uint64, kind Kind, call, ret time.Duration, err string) Event {
		e := about
		e.Op, e.Kind, e.Call, e.Return, e.Error = op, kind, call, ret, err
		return e
	}
	grant := of(1, Acquire, 10, 15, "")
	grant.Lease = 0
	require.Equal(t, []Event{
		grant,
		of(2, Act, 15, 17, ""),
		of(3, Release, 17, 20, "no quorum"),
		of(4, Lost, 20, 20, "an error without a text"),
		{Client: "c1", Worker: 3, Op: 5, Kind: Acquire, Name: "c", Call: 20, Return: 20, Error: "context deadline exceeded"},
		{Client: "c1", Worker: 4, Op: 6, Kind: Acquire, Name: "c", Call: 20},
	}, h.Events())
	require.Equal(t, "c1/w2 acquire a -> token 17", h.Events()[0].String())
	require.Equal(t, "c1/w2 release a (token 17) -> no quorum", h.Events()[2].String())
	require.Equal(t, "c1/w4 acquire c -> ?", h.Events()[5].String())
}

func TestRecorderOfReadersPermitsAndLatches(t *testing.T) {
	var out bytes.Buffer
	now := testkit.NewClock(time.Time{})
	r := NewRecorder("c1", &out, now)
	ends := func(err error) func() error { return func() error { now.Advance(1); return err } }
	takes, fails := ends(nil), ends(errors.New("no quorum"))
	now.Advance(10)
	require.NoError(t, r.AcquireRead(2, "a").Granted("owner", 17).Act(takes))
	require.EqualError(t, r.Acquire(2, "b").Granted("owner", 18).Downgrade(fails), "no quorum")
	require.NoError(t, r.AcquirePermits(2, "s", 2, 5).Granted("owner", 19, 0, 3).Release(takes))
	r.AcquirePermits(2, "s", 1, 5).Failed(errors.New("full"))
	require.NoError(t, r.Resize(2, "s", 6, takes))
	latch := func(e Event, left int, ends func() error) error {
		e.Worker, e.Name = 2, "l"
		got, err := r.Latch(e, func() (int, error) { return left, ends() })
		require.Equal(t, left, got)
		return err
	}
	require.NoError(t, latch(Event{Kind: Set, Count: 2}, 0, takes))
	require.EqualError(t, latch(Event{Kind: CountDown, ID: "id"}, 0, fails), "no quorum")
	require.NoError(t, latch(Event{Kind: Count}, 1, takes))
	require.EqualError(t, latch(Event{Kind: Count}, 7, fails), "no quorum")
	require.EqualError(t, latch(Event{Kind: Await}, 0, fails), "no quorum")
	require.NoError(t, latch(Event{Kind: Delete}, 0, takes))
	require.NoError(t, r.Close())

	h, err := Read(&out)
	require.NoError(t, err)
	var told []string
	for _, e := range h.Events() {
		told = append(told, e.String())
	}
	require.Equal(t, []string{
		"c1/w2 acquire a to read -> token 17",
		"c1/w2 act a (token 17) -> ok",
		"c1/w2 acquire b -> token 18",
		"c1/w2 downgrade b (token 18) -> no quorum",
		"c1/w2 acquire 2 of s -> token 19, slots [0 3]",
		"c1/w2 release s (token 19, slots [0 3]) -> ok",
		"c1/w2 acquire 1 of s -> full",
		"c1/w2 resize s to 6 -> ok",
		"c1/w2 set l to 2 -> ok",
		`c1/w2 countdown l by "id" -> no quorum`,
		"c1/w2 count l -> 1 left",
		"c1/w2 count l -> no quorum",
		"c1/w2 await l -> no quorum",
		"c1/w2 delete l -> ok",
	}, told)
	require.NoError(t, Check(h, ample).Err())
	require.Equal(t, 5, h.Events()[4].Size)
}

// TestRefusalsAreRecorded: the reason for which a latch refused a call is part of its event, but no other reason is.
func TestRefusalsAreRecorded(t *testing.T) {
	var log Log
	r := log.Recorder("c1", testkit.NewClock(time.Time{}))
	for _, err := range []error{
		fmt.Errorf("%w: a", quorumlock.ErrLatchNotSet), quorumlock.ErrLatchDeleted,
		&quorumlock.LatchSetError{Count: 3}, quorumlock.ErrClosed, nil,
	} {
		_, got := r.Latch(Event{Worker: 1, Kind: Set, Name: "l", Count: 2}, func() (int, error) { return 0, err })
		require.Equal(t, err, got)
	}
	_, err := r.Latch(Event{Worker: 1, Kind: Count, Name: "l"}, func() (int, error) { return 0, quorumlock.ErrLatchNotSet })
	require.Error(t, err)
	h, err := log.History()
	require.NoError(t, err)
	var refusals []Refusal
	for _, e := range h.Events() {
		refusals = append(refusals, e.Refusal)
	}
	require.Equal(t, []Refusal{NotSet, Deleted, SetOtherwise, "", "", NotSet}, refusals)
	require.Equal(t, 3, h.Events()[2].Found)
}

// TestLogCollectsRecorders: a log has the events of all its recorders, until they are closed, and reports an event
// that one of them refused.
func TestLogCollectsRecorders(t *testing.T) {
	var log Log
	now := testkit.NewClock(time.Time{})
	now.Advance(10)
	first, second := log.Recorder("c1", now), log.Recorder("c2", now)
	first.Acquire(1, "a").Granted("owner", 1)
	second.Acquire(1, "a")
	require.NoError(t, second.Close())
	second.Acquire(1, "b")
	h, err := log.History()
	require.NoError(t, err)
	require.Len(t, h.Events(), 2)
	require.True(t, h.Events()[0].Succeeded())
	first.Acquire(1, "b").Granted("owner", 0)
	_, err = log.History()
	require.ErrorContains(t, err, "recording the history of c1: a grant without owner and token")
}

// TestLatchCallIsWrittenAtOnce: a process that dies in a call leaves an event without a return.
func TestLatchCallIsWrittenAtOnce(t *testing.T) {
	var out bytes.Buffer
	r := NewRecorder("c1", &out, testkit.NewClock(time.Time{}))
	_, _ = r.Latch(Event{Worker: 1, Kind: CountDown, Name: "l", ID: "id"}, func() (int, error) {
		h, err := Read(strings.NewReader(out.String()))
		require.NoError(t, err)
		require.Equal(t, `c1/w1 countdown l by "id" -> ?`, h.Events()[0].String())
		return 0, nil
	})
	require.NoError(t, r.Err())
}

func TestRecordersOfSeveralGoroutines(t *testing.T) {
	const workers, rounds = 8, 50
	dir := t.TempDir()
	var lock sync.Mutex
	token := uint64(0)
	var all sync.WaitGroup
	for _, client := range []string{"c1", "c2"} {
		r, err := Create(dir, client)
		require.NoError(t, err)
		defer r.Close()
		for worker := range workers {
			all.Go(func() {
				for range rounds {
					attempt := r.Acquire(worker, "job")
					lock.Lock()
					token++
					held := attempt.Granted("owner", token)
					_ = held.Act(func() error { return nil })
					_ = held.Release(func() error { lock.Unlock(); return nil })
				}
			})
		}
		defer func() { require.NoError(t, r.Err()) }()
	}
	all.Wait()
	h, err := ReadDir(dir)
	require.NoError(t, err)
	result := Check(h, ample)
	require.NoError(t, result.Err())
	require.Equal(t, 2*workers*rounds, result.Total.Granted)
	require.Equal(t, 2*workers*rounds, result.Total.Acts)
	require.Equal(t, 2*workers*rounds, result.Total.Released)
}

// shortWriter accepts a limited number of bytes.
type shortWriter struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("no space left")

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		n, _ := w.Buffer.Write(p[:w.room])
		w.room = 0
		return n, errFull
	}
	w.room -= len(p)
	return w.Buffer.Write(p)
}

func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	out := &shortWriter{room: 300}
	r := NewRecorder("c1", out, testkit.NewClock(time.Time{}))
	held := r.Acquire(1, "job").Granted("owner", 1)
	for range 10 {
		require.NoError(t, held.Act(func() error { return nil }), "the client is not disturbed")
	}
	require.ErrorIs(t, r.Err(), errFull)
	require.ErrorIs(t, r.Close(), errFull)
	require.ErrorContains(t, r.Close(), "faultinject: recording the history of c1: no space left")
	require.Equal(t, 300, out.Len())
	h, err := Read(out)
	require.NoError(t, err, "the line that was cut short is the last")
	require.NotEmpty(t, h.Events())
}

func TestRecorderRefusesInvalidEvents(t *testing.T) {
	var out bytes.Buffer
	r := NewRecorder("c1", &out, nil)
	r.Acquire(1, "job").Granted("owner", 0)
	require.ErrorContains(t, r.Err(), "a grant without owner and token")
	h, err := Read(&out)
	require.NoError(t, err)
	require.Len(t, h.Events(), 1)
}

func TestClosedRecorderReportsIt(t *testing.T) {
	r, err := Create(t.TempDir(), "c1")
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	r.Acquire(1, "job")
	require.ErrorIs(t, r.Err(), errClosed)
}

func TestCreateNeedsANameOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	r, err := Create(dir, "c1")
	require.NoError(t, err)
	require.NoError(t, r.Close())
	_, err = Create(dir, "c1")
	require.ErrorIs(t, err, os.ErrExist)
	for _, bad := range []string{"", "../c1", "a/b"} {
		_, err := Create(dir, bad)
		require.ErrorContains(t, err, "cannot name a client", bad)
	}
}

// childDir is the environment variable with the directory in which a child process records.
const childDir = "QUORUMLOCK_HISTORY_CHILD"

func recordAndDie(dir string) {
	r, err := Create(dir, "child")
	if err != nil {
		panic(err)
	}
	held := r.Acquire(1, "job").Granted("owner", 1)
	_ = held.Act(func() error { return nil })
	_ = held.Release(func() error {
		me, err := os.FindProcess(os.Getpid())
		if err = errors.Join(err, me.Kill()); err != nil {
			panic(err)
		}
		select {} // the kill takes effect any moment
	})
}

func TestKilledProcessLosesNoEvent(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), exe)
	child.Env = append(os.Environ(), childDir+"="+dir)
	before := clock.System().Now()
	err = child.Run()
	after := clock.System().Now()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, "signal: killed", exit.Error())

	require.FileExists(t, filepath.Join(dir, "child.jsonl"))
	h, err := ReadDir(dir)
	require.NoError(t, err)
	events := h.Events()
	require.Len(t, events, 3)
	require.Equal(t, "child/w1 release job (token 1) -> ?", events[2].String())
	for _, e := range events {
		require.GreaterOrEqual(t, e.Call, before, "both processes have one clock")
		require.LessOrEqual(t, e.Call, after)
	}
}
