package respguard

import "bytes"

var space = []byte(" ")

// messages tells replies from messages: a reply belongs to a command, and a message comes on its
// own. In RESP3 a message is a push. In RESP2 it is an array, on a connection that has subscribed.
//
// A confirmation of a subscription looks like a message, but belongs to a command.
type messages struct {
	turns    *turns
	answered int64
	// arrays is set once a subscription was confirmed by an array.
	arrays bool

	// kind is the type of the outermost value at hand, and values how many values an array announced.
	kind   byte
	values int64
	// unknown is set until the first word of that value tells a message from a reply. message is set
	// if the value answers no command, or only a part of one.
	unknown, message bool

	// listening is set as long as the guard needs the texts in an outermost value that may be a message: its first
	// word, the channel, and the words of a Sentinel. It has had as many as heard says.
	listening bool
	heard     int
	// words is how many words the message of this channel must have.
	words int
}

// begin takes the type of an outermost value.
func (m *messages) begin(kind byte) error {
	m.kind, m.values = kind, -1
	m.listening = kind == '>' || kind == '*' && m.turns.subscribed.Load()
	m.heard = 0
	switch {
	case kind == '|':
		return nil
	case kind == '>', kind == '*' && m.subscribing():
		m.unknown = true
		return nil
	default:
		return m.expect(kind)
	}
}

// subscribing reports whether an array may be a message or a confirmation.
func (m *messages) subscribing() bool {
	if m.turns.resp3.Load() {
		return false
	}
	if m.arrays {
		return true
	}
	e, ok := m.turns.next(m.answered)
	return ok && e.verb != 0
}

// expect demands that a command waits for an answer, and that its answer may be of this type.
func (m *messages) expect(kind byte) error {
	if m.turns.uncounted.Load() {
		return nil
	}
	if m.idle() {
		return Unasked
	}
	if e, ok := m.turns.next(m.answered); ok && e.verb != 0 && (kind != '-' || e.confirmed > 0) {
		return Unconfirmed
	}
	return nil
}

func (m *messages) idle() bool { return m.answered >= m.turns.asked.Load() }

// inner takes the type of a value inside of another.
func (m *messages) inner(kind byte) error {
	if m.unknown && kind != '$' && kind != '+' {
		return NoKind
	}
	return nil
}

// empty takes an empty aggregate or a null.
func (m *messages) empty(depth int) error {
	switch {
	case !m.unknown:
		return nil
	case depth > 0, m.kind == '>':
		return NoKind
	default:
		m.unknown = false
		return m.expect(m.kind)
	}
}

// endInner ends a value of the outermost one, while the guard listens. An aggregate has no text.
func (m *messages) endInner(text []byte) error {
	m.heard++
	switch m.heard {
	case 1:
		m.listening = string(text) == "message"
		if m.unknown {
			m.unknown = false
			return m.classify(text)
		}
	case 2:
		m.words = wordsOn(text)
		m.listening = m.words > 0
	default:
		m.listening = false
		if bytes.Count(text, space)+1 < m.words {
			return FewWords
		}
	}
	return nil
}

// wordsOn is how many words a message on this channel of a Sentinel has at least, since a client takes
// them without a look at their number.
func wordsOn(channel []byte) int {
	switch string(channel) {
	case "+sentinel", "+reboot":
		return 4
	case "+switch-master":
		return 5
	default:
		return 0
	}
}

// classify tells a message from a reply by the first word of the outermost value.
func (m *messages) classify(word []byte) error {
	switch v := verbOf(word, bytes.Equal); {
	case v != 0:
		m.message = true
		return m.confirm(v)
	case m.kind == '>', m.arrays && string(word) != "pong":
		m.message = true
		return nil
	default:
		return m.expect(m.kind)
	}
}

// confirm takes a confirmation of a subscription.
func (m *messages) confirm(v verb) error {
	if m.turns.uncounted.Load() {
		return nil
	}
	last, ok := m.turns.confirm(m.answered, v)
	if !ok {
		return Unasked
	}
	if last {
		m.answered++
	}
	m.arrays = m.arrays || m.kind == '*'
	return nil
}

func (m *messages) end() error {
	if m.message {
		m.message = false
		return nil
	}
	if e, ok := m.turns.next(m.answered); ok {
		if m.values >= 0 && m.values < e.values {
			return FewValues
		}
		m.turns.settle()
	}
	m.answered++
	return nil
}
