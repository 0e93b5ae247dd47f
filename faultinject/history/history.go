package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// History is the calls of several clients, in the order of their begin. It is complete and consistent in itself,
// immutable, and safe for concurrent use.
type History struct {
	events []Event
	leases []*lease
}

// New makes a history of events in any order. It merges the two lines of one operation into one event. It fails if
// events contradict each other: two have the same number, or one concerns a lease that its client did not have by
// then.
func New(events ...Event) (*History, error) {
	var b builder
	for i, e := range events {
		if err := b.add(place{"event ", i + 1}, e); err != nil {
			return nil, err
		}
	}
	return b.history()
}

// Events returns all events in the order of their calls.
func (h *History) Events() []Event { return slices.Clone(h.events) }

// span returns the time of the first call, and the last time in the history.
func (h *History) span() (first, last time.Duration) {
	if len(h.events) == 0 {
		return 0, 0
	}
	for _, e := range h.events {
		last = max(last, e.Call, e.Return)
	}
	return h.events[0].Call, last
}

// id identifies an operation among the operations of all clients.
type id struct {
	client string
	op     uint64
}

type place struct {
	prefix string
	number int
}

// String describes the place: "line 3".
func (p place) String() string { return fmt.Sprintf("%s%d", p.prefix, p.number) }

// placed is an event and the place where it was read.
type placed struct {
	Event
	place place
}

// builder assembles events that come in any order.
type builder struct {
	ops map[id]placed
}

// add adds an event. An error names the place.
func (b *builder) add(at place, e Event) error {
	if err := e.check(); err != nil {
		return fmt.Errorf("faultinject: history: %s: %w", at, err)
	}
	if b.ops == nil {
		b.ops = map[id]placed{}
	}
	key := id{e.Client, e.Op}
	if other, ok := b.ops[key]; ok {
		if !sameCall(other.Event, e) {
			return fmt.Errorf("faultinject: history: %s: operation %d of client %s is also at %s, and is another", at, e.Op, e.Client, other.place)
		}
		if other.returned() {
			if !e.returned() {
				return nil
			}
			return fmt.Errorf("faultinject: history: %s: operation %d of client %s has returned already at %s", at, e.Op, e.Client, other.place)
		}
	}
	b.ops[key] = placed{e, at}
	return nil
}

// sameCall reports whether two events can be call and return of one operation.
func sameCall(a, b Event) bool {
	return a.Kind == b.Kind && a.Call == b.Call && a.Worker == b.Worker && a.Lease == b.Lease && sameThing(a, b) &&
		a.ID == b.ID && (a.Kind != Set || a.Count == b.Count)
}

// sameThing reports whether two events request the same of the same object.
func sameThing(a, b Event) bool {
	return a.Of == b.Of && a.Name == b.Name && a.Reads == b.Reads && a.Permits == b.Permits && a.Size == b.Size
}

func (b *builder) history() (*History, error) {
	ops := make([]placed, 0, len(b.ops))
	for _, p := range b.ops {
		ops = append(ops, p)
	}
	slices.SortFunc(ops, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Op, b.Op))
	})
	h := &History{events: make([]Event, len(ops))}
	for i, p := range ops {
		if err := b.checkLease(p.Event); err != nil {
			return nil, fmt.Errorf("faultinject: history: %s: %w", p.place, err)
		}
		h.events[i] = p.Event
	}
	h.leases = leasesOf(h.events)
	return h, nil
}

// checkLease checks that the event's lease had been granted to the client by then.
func (b *builder) checkLease(e Event) error {
	if !e.ofLease() {
		return nil
	}
	grant, ok := b.ops[id{e.Client, e.Lease}]
	switch {
	case !ok || !grant.granted():
		return fmt.Errorf("%s of lease %d, which client %s was not granted", e.Kind, e.Lease, e.Client)
	case grant.Token != e.Token || grant.Owner != e.Owner || !sameThing(grant.Event, e) || !slices.Equal(grant.Slots, e.Slots):
		return fmt.Errorf("%s of lease %d, which has another owner, token or name at %s", e.Kind, e.Lease, grant.place)
	case e.Call < grant.Return:
		return fmt.Errorf("%s of lease %d before it was granted at %s", e.Kind, e.Lease, grant.place)
	}
	return nil
}

// Read reads the file of one recorder. It ignores a torn last line. An error names the line.
func Read(in io.Reader) (*History, error) {
	var b builder
	if err := b.read("line ", in); err != nil {
		return nil, err
	}
	return b.history()
}

// ReadDir reads the files *.jsonl in a directory as one history of all clients. It ignores a torn last line of each
// file. An error names file and line. ReadDir fails if there is no such file.
func ReadDir(dir string) (*History, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("faultinject: reading histories: %w", err)
	}
	var b builder
	files := 0
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		files++
		if err := b.readFile(filepath.Join(dir, entry.Name())); err != nil {
			return nil, err
		}
	}
	if files == 0 {
		return nil, fmt.Errorf("faultinject: reading histories: no *%s in %s", suffix, dir)
	}
	return b.history()
}

func (b *builder) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("faultinject: reading histories: %w", err)
	}
	defer file.Close()
	return b.read(path+":", file)
}

// read reads the lines of a file. The place of a line is the prefix and its number.
func (b *builder) read(prefix string, in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return fmt.Errorf("faultinject: history: %s%d: %w", prefix, n, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := b.parse(place{prefix, n}, line, last); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// parse reads a line. It ignores a torn line, which has no line end and is no JSON: a JSON object is complete only
// with its last character.
func (b *builder) parse(at place, line []byte, unterminated bool) error {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		if unterminated && !json.Valid(line) {
			return nil
		}
		return fmt.Errorf("faultinject: history: %s: %w", at, err)
	}
	return b.add(at, e)
}
