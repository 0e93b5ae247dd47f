package respguard

import (
	"sync"
	"sync/atomic"
)

// turns is what writing tells reading: how many commands were sent, and which of them subscribe.
type turns struct {
	// asked is how many commands were sent in full, or are just being sent.
	asked atomic.Int64
	// subscribed is set by the first subscription. Until then, reading needs no mutex.
	subscribed atomic.Bool
	// resp3 is set by HELLO 3. The client then takes no array for a message, even if the server
	// refuses RESP3.
	resp3 atomic.Bool
	// uncounted is set where commands cannot be counted. From then on no reply is unasked.
	uncounted atomic.Bool

	mu sync.Mutex
	// pending are the subscriptions that the server has not answered, in order.
	pending []subscription
}

// subscription is a command that is answered by one confirmation for each channel, or by an error.
type subscription struct {
	// command is how many commands were sent before this one.
	command  int64
	verb     verb
	channels int64
	// confirmed is how many channels the server has confirmed.
	confirmed int64
}

// verb is one of the commands that subscribe or unsubscribe: its place in verbs, from 1 on. The zero verb is any other
// command.
type verb uint8

var verbs = [...]string{"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"}

// maxVerb is the length of the longest verb.
const maxVerb = len("punsubscribe")

// verbOf finds the verb of a command or a confirmation by its first word.
func verbOf(word []byte) verb {
	for i, v := range verbs {
		if string(word) == v {
			return verb(i + 1)
		}
	}
	return 0
}

// subscribe notes a subscription before it is counted as a command.
func (t *turns) subscribe(s subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, s)
	t.subscribed.Store(true)
}

// next returns the subscription whose answer is due, if a subscription is next.
func (t *turns) next(answered int64) (s subscription, ok bool) {
	if !t.subscribed.Load() {
		return subscription{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 || t.pending[0].command != answered {
		return subscription{}, false
	}
	return t.pending[0], true
}

// settle takes off the subscription whose answer was due.
func (t *turns) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = t.pending[1:]
}

// confirm counts a confirmation for the subscription whose answer is due. It reports whether that
// was the last one, and whether there is such a subscription at all.
func (t *turns) confirm(answered int64, v verb) (last, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 || t.pending[0].command != answered || t.pending[0].verb != v {
		return false, false
	}
	s := &t.pending[0]
	s.confirmed++
	if s.confirmed < s.channels {
		return false, true
	}
	t.pending = t.pending[1:]
	return true, true
}
