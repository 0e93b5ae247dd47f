package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
)

// Event is something that a client did, and a line in a file. What takes long has two
// lines, one at its call and one at its return; the second repeats the first.
type Event struct {
	// Client names the process, and Worker the goroutine in it.
	Client string `json:"client"`
	Worker int    `json:"worker"`
	// Op numbers what a client did, from 1.
	Op   uint64 `json:"op"`
	Kind Kind   `json:"kind"`
	// Names are those of the lock, at least one, in UTF-8.
	Names []string `json:"names"`
	// Lease is the Op of the acquisition that the lease is from; 0 for an acquisition.
	Lease uint64 `json:"lease,omitempty"`
	// Owner and Token are those of the lease, and empty in an acquisition that was not
	// granted.
	Owner string `json:"owner,omitempty"`
	Token uint64 `json:"token,omitempty"`
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
	fmt.Fprintf(&b, "%s/w%d %s %s", e.Client, e.Worker, e.Kind, strings.Join(e.Names, ","))
	if e.Kind != Acquire {
		fmt.Fprintf(&b, " (token %d)", e.Token)
	}
	switch {
	case e.Return == 0:
		b.WriteString(" -> ?")
	case e.Error != "":
		b.WriteString(" -> " + e.Error)
	case e.Kind == Acquire:
		fmt.Fprintf(&b, " -> token %d", e.Token)
	default:
		b.WriteString(" -> ok")
	}
	return b.String()
}

// returned reports whether its end was seen.
func (e Event) returned() bool { return e.Return != 0 }

// succeeded reports whether it ended, and without an error.
func (e Event) succeeded() bool { return e.returned() && e.Error == "" }

// granted reports whether it is an acquisition that gave a lease.
func (e Event) granted() bool { return e.Kind == Acquire && e.succeeded() }

// latest is far enough from the end of the range that nothing overflows.
const latest = time.Duration(1) << 62

// check reports what is wrong with the event by itself.
func (e Event) check() error {
	switch {
	case e.Client == "" || !utf8.ValidString(e.Client):
		return fmt.Errorf("%q is no name of a client", e.Client)
	case e.Op == 0:
		return errors.New("no number of the operation")
	case !slices.Contains([]Kind{Acquire, Act, Release, Lost}, e.Kind):
		return fmt.Errorf("no kind is called %q", string(e.Kind))
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
	return e.checkLease()
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
	has := e.Owner != "" && e.Token != 0
	hasNot := e.Owner == "" && e.Token == 0
	switch {
	case e.Kind != Acquire && (!has || e.Lease == 0):
		return fmt.Errorf("%s without owner, token and number of the lease", e.Kind)
	case e.Kind == Acquire && e.Lease != 0:
		return errors.New("an acquisition for a lease that is there already")
	case e.granted() && !has:
		return errors.New("a grant without owner and token")
	case e.Kind == Acquire && !e.granted() && !hasNot:
		return errors.New("owner or token without a grant")
	}
	return nil
}
