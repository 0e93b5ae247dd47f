package respguard

// requests follows the commands that are sent: arrays of strings, in any fragments.
type requests struct {
	turns *turns
	step  requestStep
	// number is the number of the line at hand, and then how many bytes of the argument and its
	// CRLF are still to come.
	number int64
	// arguments is how many arguments of the command there are, and left how many are to come.
	arguments, left int64
	// words are the first two arguments.
	words [2]word
	// sent is how many commands were sent in full.
	sent int64
}

// word is an argument: how it begins, in lower case, and how long it is.
type word struct {
	text    [len("get-master-addr-by-name")]byte
	letters int64
}

// take takes bytes of the argument, at their place in it.
func (w *word) take(p []byte, at int64) {
	for _, b := range p {
		if at >= min(w.letters, int64(len(w.text))) {
			return
		}
		w.text[at] = b | 0x20
		at++
	}
}

// is reports whether the argument is this one, in lower case.
func (w *word) is(text string) bool {
	return w.letters == int64(len(text)) && string(w.text[:len(text)]) == text
}

type requestStep uint8

const (
	atCommand requestStep = iota
	inCount
	atArgument
	inSize
	inArgument
	notCounted
)

// scan counts the commands that end in p. It publishes them before p is written: the server may
// answer at once.
func (r *requests) scan(p []byte) {
	for i := 0; i < len(p); {
		switch r.step {
		case inCount, inSize:
			r.digit(p[i])
			i++
		case inArgument:
			n := min(r.number, int64(len(p)-i))
			r.argument(p[i : i+int(n)])
			i += int(n)
		case notCounted:
			return
		default:
			if n := r.wholeArgument(p[i:]); n > 0 {
				i += n
				continue
			}
			r.begin(p[i])
			i++
		}
	}
	if r.step != notCounted {
		r.turns.asked.Store(r.sent)
	}
}

// begin takes the first byte of a command or an argument.
func (r *requests) begin(b byte) {
	r.number = 0
	switch {
	case r.step == atCommand && b == '*':
		r.step = inCount
	case r.step == atArgument && b == '$':
		r.step = inSize
	default:
		r.giveUp()
	}
}

// wholeArgument takes an argument if all of it is there: as good as always. It takes nothing of
// anything else.
func (r *requests) wholeArgument(p []byte) (n int) {
	if r.step != atArgument || p[0] != '$' {
		return 0
	}
	length, at := header(p)
	end := at + length + len("\r\n")
	if at == 0 || len(p) < end {
		return 0
	}
	if w := r.word(); w != nil {
		w.letters = int64(length)
		w.take(p[at:at+length], 0)
	}
	if r.left--; r.left == 0 {
		r.end()
	}
	return end
}

// header reads a length and its CRLF behind the type of a value. What follows stands at the
// second result, which is 0 if that is not all there, or unusual.
func header(p []byte) (length, at int) {
	at = 1
	for at < len(p) && at < maxDigits && p[at] >= '0' && p[at] <= '9' {
		length = length*10 + int(p[at]-'0')
		at++
	}
	if at == 1 || len(p) < at+len("\r\n") || p[at] != '\r' || p[at+1] != '\n' {
		return 0, 0
	}
	return length, at + len("\r\n")
}

// digit takes a byte of the line of a length.
func (r *requests) digit(b byte) {
	switch {
	case b >= '0' && b <= '9' && r.number < 1<<40:
		r.number = r.number*10 + int64(b-'0')
	case b == '\r':
	case b != '\n':
		r.giveUp()
	case r.step == inSize:
		r.step = inArgument
		if w := r.word(); w != nil {
			w.letters = r.number
		}
		r.number += int64(len("\r\n"))
	case r.number == 0:
		r.giveUp()
	default:
		r.step, r.arguments, r.left = atArgument, r.number, r.number
	}
}

// argument takes bytes of an argument and its CRLF.
func (r *requests) argument(p []byte) {
	if w := r.word(); w != nil {
		w.take(p, w.letters+int64(len("\r\n"))-r.number)
	}
	if r.number -= int64(len(p)); r.number > 0 {
		return
	}
	r.step = atArgument
	if r.left--; r.left == 0 {
		r.end()
	}
}

// word returns where to keep the argument at hand, or nil.
func (r *requests) word() *word {
	if i := r.arguments - r.left; i < int64(len(r.words)) {
		return &r.words[i]
	}
	return nil
}

// end counts a command.
func (r *requests) end() {
	r.step = atCommand
	first, second := &r.words[0], &r.words[1]
	v := verb(0)
	if first.letters <= int64(len(first.text)) {
		v = verbOf(first.text[:first.letters])
	}
	switch {
	case v != 0 && r.arguments < 2: // there is a confirmation for each channel that there is
		r.giveUp()
		return
	case v != 0:
		r.turns.expect(expected{command: r.sent, verb: v, channels: r.arguments - 1})
	case first.is("hello") && second.is("3"):
		r.turns.resp3.Store(true)
	case first.is("role"):
		r.turns.expect(expected{command: r.sent, values: 1})
	case first.is("sentinel") && second.is("get-master-addr-by-name"):
		r.turns.expect(expected{command: r.sent, values: 2}) // host and port
	}
	r.sent++
}

// giveUp stops counting, as the number of answers is unknown. No client of this library sends such
// commands.
func (r *requests) giveUp() {
	r.step = notCounted
	r.turns.uncounted.Store(true)
}
