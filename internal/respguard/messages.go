package respguard

// messages tells replies from messages: a reply belongs to a command, and a message comes on its
// own. In RESP3 a message is a push. In RESP2 it is an array, on a connection that has subscribed.
//
// A confirmation of a subscription looks like a message, but belongs to a command.
type messages struct {
	turns *turns
	// answered is how many commands were answered in full.
	answered int64
	// arrays is set once a subscription was confirmed by an array.
	arrays bool

	// kind is the type of the outermost value at hand.
	kind byte
	// unknown is set until the first word of that value tells a message from a reply. message is set
	// if the value answers no command, or only a part of one.
	unknown, message bool
	// hearing is set while the first word comes. first is how it begins, and letters its length.
	hearing bool
	first   [maxVerb]byte
	letters int
}

// begin takes the type of an outermost value.
func (m *messages) begin(kind byte) error {
	m.kind = kind
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
	_, ok := m.turns.next(m.answered)
	return ok
}

// expect demands that a command waits for an answer, and that its answer may be of this type.
func (m *messages) expect(kind byte) error {
	if m.turns.uncounted.Load() {
		return nil
	}
	if m.answered >= m.turns.asked.Load() {
		return Unasked
	}
	if s, ok := m.turns.next(m.answered); ok && (kind != '-' || s.confirmed > 0) {
		return Unconfirmed
	}
	return nil
}

// word takes the type of a value inside of another.
func (m *messages) word(kind byte) error {
	if !m.unknown {
		return nil
	}
	if kind != '$' && kind != '+' {
		return NoKind
	}
	m.hearing, m.letters = true, 0
	return nil
}

// hear takes bytes of a string or a line.
func (m *messages) hear(p []byte) {
	if !m.hearing {
		return
	}
	for _, b := range p {
		if b == '\r' || b == '\n' {
			continue
		}
		if m.letters < maxVerb {
			m.first[m.letters] = b
		}
		m.letters = min(m.letters+1, maxVerb+1)
	}
}

// empty takes an empty aggregate or a null.
func (m *messages) empty(depth int) error {
	switch {
	case m.hearing, m.unknown && m.kind == '>':
		return NoKind
	case m.unknown && depth == 0:
		m.unknown = false
		return m.expect(m.kind)
	default:
		return nil
	}
}

// classify tells a message from a reply when the first word of the outermost value is complete.
func (m *messages) classify() error {
	if !m.hearing {
		return nil
	}
	m.hearing, m.unknown = false, false
	var word []byte
	if m.letters <= maxVerb {
		word = m.first[:m.letters]
	}
	switch v := verbOf(word); {
	case v != 0:
		m.message = true
		return m.confirm(v)
	case m.kind == '>':
		m.message = true
		return nil
	case m.arrays && string(word) != "pong":
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

// end ends an outermost value.
func (m *messages) end() {
	if m.message {
		m.message = false
		return
	}
	if _, ok := m.turns.next(m.answered); ok {
		m.turns.settle()
	}
	m.answered++
}
