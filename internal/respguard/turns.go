package respguard

import (
	"sync"
	"sync/atomic"
)

// turns is what writing tells reading: how many commands were sent, and which of them subscribe.
type turns struct {
	// asked is how many commands were sent in full, or are just being sent.
	asked atomic.Int64
	// subscribed is set by the first subscription.
	subscribed atomic.Bool
	// resp3 is set by HELLO 3. The client then takes no array for a message, even if the server
	// refuses RESP3.
	resp3 atomic.Bool
	// uncounted is set where commands cannot be counted. From then on no reply is unasked.
	uncounted atomic.Bool

	mu sync.Mutex
	// pending are the commands of which the guard expects more than an answer, in order, as long as they
	// have none. due is how many there are: without any, reading needs no mutex.
	pending []expected
	due     atomic.Int64
}

// expected is a command whose answer must have a certain form. A subscription is answered by one
// confirmation for each channel, or by an error. Other commands are answered by an array, of which a client
// takes the first values without a look at its length.
type expected struct {
	command   int64
	verb      verb
	channels  int64
	confirmed int64
	// values is the smallest number of values in an array.
	values int64
}

// verb is one of the commands that subscribe or unsubscribe: its place in verbs, from 1 on. The zero verb is any other
// command.
type verb uint8

var verbs = [...][]byte{
	[]byte("subscribe"), []byte("unsubscribe"), []byte("psubscribe"), []byte("punsubscribe"), []byte("ssubscribe"), []byte("sunsubscribe"),
}

// verbOf finds the verb of a word. Commands are written in any case, and confirmations in lower case.
func verbOf(word []byte, is func(a, b []byte) bool) verb {
	for i, v := range verbs {
		if is(word, v) {
			return verb(i + 1)
		}
	}
	return 0
}

// expect notes a command before it is counted.
func (t *turns) expect(e expected) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, e)
	t.due.Add(1)
	if e.verb != 0 {
		t.subscribed.Store(true)
	}
}

// next returns the command whose answer is due, if the guard expects more of it than an answer.
func (t *turns) next(answered int64) (e expected, ok bool) {
	if t.due.Load() == 0 {
		return expected{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 || t.pending[0].command != answered {
		return expected{}, false
	}
	return t.pending[0], true
}

// settle takes off the command whose answer was due.
func (t *turns) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked()
}

func (t *turns) settleLocked() {
	t.pending = t.pending[1:]
	t.due.Add(-1)
}

// confirm counts a confirmation for the subscription whose answer is due. It reports whether that
// was the last one, and whether there is such a subscription at all.
func (t *turns) confirm(answered int64, v verb) (last, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 || t.pending[0].command != answered || v == 0 || t.pending[0].verb != v {
		return false, false
	}
	s := &t.pending[0]
	s.confirmed++
	if s.confirmed < s.channels {
		return false, true
	}
	t.settleLocked()
	return true, true
}
