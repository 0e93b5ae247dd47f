package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is the type of a named object. Objects of different types are independent, even if they have the same name.
type Type string

// The types. Histories from before there were several types are about locks.
const (
	// Lock is a lock, or a lock for readers and writers.
	Lock Type = ""
	// Semaphore is a number of permits.
	Semaphore Type = "semaphore"
	// Latch is a count-down latch.
	Latch Type = "latch"
)

// Kind is the kind of call that a client made.
type Kind string

// The kinds of an [Event].
const (
	// Acquire requests a lease.
	Acquire Kind = "acquire"
	// Act checks that a lease is valid, in order to act on it.
	Act Kind = "act"
	// Release releases a lease.
	Release Kind = "release"
	// Lost records that a lease ended by itself. It is a single instant.
	Lost Kind = "lost"
	// Downgrade turns a writer's lease into a reader's.
	Downgrade Kind = "downgrade"

	// Resize sets the number of permits of a semaphore.
	Resize Kind = "resize"

	// Set sets a latch.
	Set Kind = "set"

	// CountDown counts down for an id.
	CountDown Kind = "countdown"
	// Await waits until a latch is done.
	Await Kind = "await"
	// Count asks how many ids have not counted down yet.
	Count Kind = "count"
	// Delete deletes a latch.
	Delete Kind = "delete"
)

var kinds = map[Type][]Kind{
	Lock:      {Acquire, Act, Release, Lost, Downgrade},
	Semaphore: {Acquire, Act, Release, Lost, Resize},
	Latch:     {Set, CountDown, Await, Count, Delete},
}

// Event is a call of a client, and a line in a file. A call that takes time has two lines, one at its call and one at
// its return. The second line repeats the first.
type Event struct {
	// Client names the process, and Worker the goroutine in it.
	Client string `json:"client"`
	Worker int    `json:"worker"`
	// Op numbers the calls of a client, from 1.
	Op   uint64 `json:"op"`
	Kind Kind   `json:"kind"`
	// Of is the type of the named objects.
	Of Type `json:"of,omitempty"`
	// Name is the name of the object, in UTF-8. A lease of several names has events of each.
	Name string `json:"name"`
	// Lease is the Op of the acquisition that gave the lease; 0 for an acquisition.
	Lease uint64 `json:"lease,omitempty"`
	// Owner and Token are the owner and the token of the lease. Both are empty in an acquisition
	// that was not granted.
	Owner string `json:"owner,omitempty"`
	Token uint64 `json:"token,omitempty"`
	// Reads marks a lease that was requested by a reader.
	Reads bool `json:"reads,omitempty"`
	// Permits is the number of permits in the lease, and Slots their numbers. Slots is empty in an acquisition that was not
	// granted.
	Permits int   `json:"permits,omitempty"`
	Slots   []int `json:"slots,omitempty"`
	// Size is the size of the semaphore. For an acquisition, it is the size in the client's configuration; for a
	// Resize, the new size.
	Size int `json:"size,omitempty"`
	// SizeSince is when an acquisition of permits was requested, if Call is later: see [Attempt.SizeSince].
	SizeSince time.Duration `json:"sizeSince,omitempty"`
	// ID is the id of a count-down.
	ID string `json:"id,omitempty"`
	// Count is the number that a latch is set to, or the reported number of missing ids.
	Count int `json:"count,omitempty"`
	// Call is the time just before the call began, and Return just after it ended, in nanoseconds of a clock that all
	// clients share. Return is 0 if no return was seen: the call may have taken effect since, or never.
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return,omitempty"`
	// Error is the reason of a failure; for an act, why the lease is no longer valid; for a loss, its cause. It is
	// empty for a success, and without a Return.
	Error string `json:"error,omitempty"`
	// Refusal is the state of the latch that the error reports, if it reports one. Found is the number that the latch
	// was found to be set to, for SetOtherwise.
	Refusal Refusal `json:"refusal,omitempty"`
	Found   int     `json:"found,omitempty"`
}

// Refusal is the state of a latch that makes it refuse a call.
type Refusal string

// The refusals.
const (
	// NotSet: the latch is not set.
	NotSet Refusal = "not set"
	// Deleted: the latch was deleted during the call.
	Deleted Refusal = "deleted"
	// SetOtherwise: the latch is set to another number.
	SetOtherwise Refusal = "set otherwise"
)

// String describes the event briefly, without its times: "c1/w2 acquire job -> token 17".
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/w%d %s", e.Client, e.Worker, e.Kind)
	if e.Kind == Acquire && e.Of == Semaphore {
		fmt.Fprintf(&b, " %d of", e.Permits)
	}
	fmt.Fprintf(&b, " %s%s -> %s", e.Name, e.asked(), e.result())
	return b.String()
}

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

// slots lists the numbers of the permits, if it is of a semaphore.
func (e Event) slots() string {
	if len(e.Slots) == 0 {
		return ""
	}
	return fmt.Sprintf(", slots %v", e.Slots)
}

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

func (e Event) returned() bool { return e.Return != 0 }

// Succeeded reports whether the call returned without an error.
func (e Event) Succeeded() bool { return e.returned() && e.Error == "" }

// latestReturn is the latest time at which the call can have taken effect.
func (e Event) latestReturn() time.Duration {
	if e.Succeeded() {
		return e.Return
	}
	return latest
}

// granted reports whether the event is an acquisition that gave a lease.
func (e Event) granted() bool { return e.Kind == Acquire && e.Succeeded() }

// ofLease reports whether the event concerns a lease that was granted before.
func (e Event) ofLease() bool {
	return e.Kind == Act || e.Kind == Release || e.Kind == Lost || e.Kind == Downgrade
}

// latest is far enough from the end of the range that nothing overflows.
const latest = time.Duration(1) << 62

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
	case e.Name == "" || !utf8.ValidString(e.Name):
		return fmt.Errorf("%q is no name of an object", e.Name)
	case e.Error != "" && !e.returned():
		return errors.New("an error without a return")
	case e.Kind == Lost && !e.returned():
		return errors.New("a loss without a time")
	}
	if err := e.checkType(); err != nil {
		return err
	}
	return e.checkLease()
}

// noKind returns the error for a kind that the type does not have.
func (e Event) noKind() error {
	if _, ok := kinds[e.Of]; !ok {
		return fmt.Errorf("no type is called %q", string(e.Of))
	}
	if e.Of == Lock {
		return fmt.Errorf("no kind is called %q", string(e.Kind))
	}
	return fmt.Errorf("no kind of a %s is called %q", e.Of, string(e.Kind))
}

// checkType validates the fields that only some types and kinds have.
func (e Event) checkType() error {
	leased := e.Of == Semaphore && e.Kind != Resize
	negative := slices.ContainsFunc(e.Slots, func(n int) bool { return n < 0 })
	switch {
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
	case e.Kind == Count && !e.Succeeded() && e.Count != 0:
		return errors.New("a number without an answer")
	case e.Refusal != "" && (e.Of != Latch || e.Error == ""), (e.Refusal == SetOtherwise) != (e.Found != 0):
		return fmt.Errorf("the refusal %q, %d, of a %s", e.Refusal, e.Found, e.Kind)
	}
	return nil
}

func repeated(numbers []int) bool {
	sorted := slices.Sorted(slices.Values(numbers))
	return len(slices.Compact(sorted)) < len(numbers)
}

func (e Event) checkLease() error {
	has := e.Owner != "" && e.Token != 0 && (e.Of != Semaphore || len(e.Slots) > 0)
	hasNot := e.Owner == "" && e.Token == 0
	switch {
	case e.ofLease() && (!has || e.Lease == 0):
		return fmt.Errorf("%s without owner, token and number of the lease", e.Kind)
	case e.Kind == Acquire && e.Lease != 0:
		return errors.New("an acquisition for a lease that is there already")
	case e.granted() && !has:
		return errors.New("a grant without owner and token, or without slots")
	case e.Kind == Acquire && !e.granted() && (!hasNot || len(e.Slots) > 0):
		return errors.New("owner or token without a grant")
	case !e.ofLease() && e.Kind != Acquire && (!hasNot || e.Lease != 0):
		return fmt.Errorf("%s with a lease", e.Kind)
	}
	return nil
}
