package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Type says what kind of thing a name is that of. Things of different types have nothing to do
// with each other, also if they have one name.
type Type string

// The types of things. Histories from before there were several are about locks.
const (
	// Lock is a lock, or one for readers and writers.
	Lock Type = ""
	// Semaphore is a number of permits.
	Semaphore Type = "semaphore"
	// Latch is a count-down latch.
	Latch Type = "latch"
)

// Kind says what a client did.
type Kind string

// The kinds of [Event].
const (
	// Acquire asks for a lease.
	Acquire Kind = "acquire"
	// Act looks whether a lease is valid, to act on it.
	Act Kind = "act"
	// Release gives a lease back.
	Release Kind = "release"
	// Lost sees that a lease has ended by itself. It is of one instant.
	Lost Kind = "lost"
	// Downgrade makes a writer's lease a reader's.
	Downgrade Kind = "downgrade"

	// Resize sets how many permits a semaphore has.
	Resize Kind = "resize"

	// Set sets a latch.
	Set Kind = "set"
	// CountDown counts down.
	CountDown Kind = "countdown"
	// Await waits until a latch is done.
	Await Kind = "await"
	// Count asks how many have still to count down.
	Count Kind = "count"
	// Delete deletes a latch.
	Delete Kind = "delete"
)

// kinds are those that there are for each type.
var kinds = map[Type][]Kind{
	Lock:      {Acquire, Act, Release, Lost, Downgrade},
	Semaphore: {Acquire, Act, Release, Lost, Resize},
	Latch:     {Set, CountDown, Await, Count, Delete},
}

// Event is something that a client did, and a line in a file. What takes long has two
// lines, one at its call and one at its return; the second repeats the first.
type Event struct {
	// Client names the process, and Worker the goroutine in it.
	Client string `json:"client"`
	Worker int    `json:"worker"`
	// Op numbers what a client did, from 1.
	Op   uint64 `json:"op"`
	Kind Kind   `json:"kind"`
	// Of is what the names are those of.
	Of Type `json:"of,omitempty"`
	// Names are those of the lock, at least one, in UTF-8. A semaphore or a latch has one.
	Names []string `json:"names"`
	// Lease is the Op of the acquisition that the lease is from; 0 for an acquisition.
	Lease uint64 `json:"lease,omitempty"`
	// Owner and Token are those of the lease, and empty in an acquisition that was not
	// granted.
	Owner string `json:"owner,omitempty"`
	Token uint64 `json:"token,omitempty"`
	// Reads says that the lease was asked for as a reader's.
	Reads bool `json:"reads,omitempty"`
	// Permits is how many permits of a semaphore the lease is for, and Slots which, if they have
	// numbers; Slots is empty in an acquisition that was not granted.
	Permits int   `json:"permits,omitempty"`
	Slots   []int `json:"slots,omitempty"`
	// Size is how many permits the semaphore has: for an acquisition, by the configuration of
	// the client; for a Resize, from then on.
	Size int `json:"size,omitempty"`
	// ID is the id of a count-down.
	ID string `json:"id,omitempty"`
	// Count is what a latch is set to, or how many it was found to lack.
	Count int `json:"count,omitempty"`
	// Call is the time just before it began, and Return just after it ended, in
	// nanoseconds of a clock that all clients share. A Return of 0 says that none was
	// seen: it may have happened since, or never.
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return,omitempty"`
	// Error says why it failed; for an act, why the lease is not valid any more; for
	// a loss, the cause. It is empty if it succeeded, and without a Return.
	Error string `json:"error,omitempty"`
}

// String is the event in short, without its times: "c1/w2 acquire job -> token 17".
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/w%d %s", e.Client, e.Worker, e.Kind)
	if e.Kind == Acquire && e.Of == Semaphore {
		fmt.Fprintf(&b, " %d of", e.Permits)
	}
	fmt.Fprintf(&b, " %s%s -> %s", strings.Join(e.Names, ","), e.asked(), e.result())
	return b.String()
}

// asked is what an event is about besides its names.
func (e Event) asked() string {
	switch e.Kind {
	case Acquire:
		if e.Reads {
			return " to read"
		}
	case Act, Release, Lost, Downgrade:
		return fmt.Sprintf(" (token %d%s)", e.Token, e.slots())
	case Resize:
		return fmt.Sprintf(" to %d", e.Size)
	case Set:
		return fmt.Sprintf(" to %d", e.Count)
	case CountDown:
		return fmt.Sprintf(" by %q", e.ID)
	}
	return ""
}

// slots are the numbers of the permits, if they have any.
func (e Event) slots() string {
	if len(e.Slots) == 0 {
		return ""
	}
	return fmt.Sprintf(", slots %v", e.Slots)
}

// result is what came of it.
func (e Event) result() string {
	switch {
	case !e.returned():
		return "?"
	case e.Error != "":
		return e.Error
	case e.Kind == Acquire:
		return fmt.Sprintf("token %d%s", e.Token, e.slots())
	case e.Kind == Count:
		return fmt.Sprintf("%d left", e.Count)
	default:
		return "ok"
	}
}

// returned reports whether its end was seen.
func (e Event) returned() bool { return e.Return != 0 }

// succeeded reports whether it ended, and without an error.
func (e Event) succeeded() bool { return e.returned() && e.Error == "" }

// latestReturn is the return of what may have happened at any time since its call.
func (e Event) latestReturn() time.Duration {
	if e.succeeded() {
		return e.Return
	}
	return latest
}

// granted reports whether it is an acquisition that gave a lease.
func (e Event) granted() bool { return e.Kind == Acquire && e.succeeded() }

// ofLease reports whether it is about a lease that was granted before.
func (e Event) ofLease() bool {
	return e.Kind == Act || e.Kind == Release || e.Kind == Lost || e.Kind == Downgrade
}

// latest is far enough from the end of the range that nothing overflows.
const latest = time.Duration(1) << 62

// check reports what is wrong with the event by itself.
func (e Event) check() error {
	switch {
	case e.Client == "" || !utf8.ValidString(e.Client):
		return fmt.Errorf("%q is no name of a client", e.Client)
	case e.Op == 0:
		return errors.New("no number of the operation")
	case !slices.Contains(kinds[e.Of], e.Kind):
		return e.noKind()
	case e.Call < 1 || e.Call > latest:
		return fmt.Errorf("a call at %d", int64(e.Call))
	case e.returned() && (e.Return < e.Call || e.Return > latest):
		return fmt.Errorf("a return at %d of a call at %d", int64(e.Return), int64(e.Call))
	case e.Error != "" && !e.returned():
		return errors.New("an error without a return")
	case e.Kind == Lost && !e.returned():
		return errors.New("a loss without a time")
	}
	if err := e.checkNames(); err != nil {
		return err
	}
	if err := e.checkType(); err != nil {
		return err
	}
	return e.checkLease()
}

// noKind says that the type has no such kind.
func (e Event) noKind() error {
	if _, ok := kinds[e.Of]; !ok {
		return fmt.Errorf("no type is called %q", string(e.Of))
	}
	if e.Of == Lock {
		return fmt.Errorf("no kind is called %q", string(e.Kind))
	}
	return fmt.Errorf("no kind of a %s is called %q", e.Of, string(e.Kind))
}

// checkType reports what is wrong with that which only some types and kinds have.
func (e Event) checkType() error {
	leased := e.Of == Semaphore && e.Kind != Resize
	negative := slices.ContainsFunc(e.Slots, func(n int) bool { return n < 0 })
	switch {
	case e.Of != Lock && len(e.Names) > 1:
		return fmt.Errorf("several names of a %s", e.Of)
	case e.Reads && e.Of != Lock:
		return fmt.Errorf("a reader of a %s", e.Of)
	case leased && e.Permits < 1, !leased && (e.Permits != 0 || len(e.Slots) > 0):
		return fmt.Errorf("%s of %d permits, slots %v", e.Kind, e.Permits, e.Slots)
	case e.Of == Semaphore && e.Size < 1, e.Of != Semaphore && e.Size != 0:
		return fmt.Errorf("%s with %d permits in all", e.Kind, e.Size)
	case len(e.Slots) > 0 && len(e.Slots) != e.Permits, negative, repeated(e.Slots):
		return fmt.Errorf("slots %v for %d permits", e.Slots, e.Permits)
	case (e.Kind == CountDown) != (e.ID != ""), !utf8.ValidString(e.ID):
		return fmt.Errorf("%s with the id %q", e.Kind, e.ID)
	case e.Kind == Set && e.Count < 1, e.Kind == Count && e.Count < 0, e.Kind != Set && e.Kind != Count && e.Count != 0:
		return fmt.Errorf("%s of %d", e.Kind, e.Count)
	case e.Kind == Count && !e.succeeded() && e.Count != 0:
		return errors.New("a number without an answer")
	}
	return nil
}

// repeated reports whether a number is there twice.
func repeated(numbers []int) bool {
	sorted := slices.Sorted(slices.Values(numbers))
	return len(slices.Compact(sorted)) < len(numbers)
}

func (e Event) checkNames() error {
	if len(e.Names) == 0 {
		return errors.New("no name of a lock")
	}
	for i, name := range e.Names {
		if slices.Contains(e.Names[:i], name) {
			return fmt.Errorf("the name %q twice", name)
		}
		if !utf8.ValidString(name) {
			return fmt.Errorf("the name %q is not UTF-8, and would be another in JSON", name)
		}
	}
	return nil
}

func (e Event) checkLease() error {
	// The semaphores of others may count permits, without numbers and tokens.
	counted := e.Of == Semaphore && len(e.Slots) == 0
	has := e.Owner != "" && (e.Token != 0 || counted)
	hasNot := e.Owner == "" && e.Token == 0
	switch {
	case e.ofLease() && (!has || e.Lease == 0):
		return fmt.Errorf("%s without owner, token and number of the lease", e.Kind)
	case e.Kind == Acquire && e.Lease != 0:
		return errors.New("an acquisition for a lease that is there already")
	case e.granted() && !has:
		return errors.New("a grant without owner and token")
	case e.Kind == Acquire && !e.granted() && (!hasNot || len(e.Slots) > 0):
		return errors.New("owner or token without a grant")
	case !e.ofLease() && e.Kind != Acquire && (!hasNot || e.Lease != 0):
		return fmt.Errorf("%s with a lease", e.Kind)
	}
	return nil
}
