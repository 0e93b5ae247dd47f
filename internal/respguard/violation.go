package respguard

// The limits of a server's replies.
const (
	// MaxString is the largest length of a string, in bytes.
	MaxString = 64 << 20
	// MaxReply is the largest size of a reply, in bytes: of all its strings and lines together.
	MaxReply = 256 << 20
	// MaxElements is the largest number of values that a reply may announce, at all its levels
	// together. A key and its value in a map are two.
	MaxElements = 1 << 20
	// MaxDepth is how deep aggregates may be nested.
	MaxDepth = 8
	// MaxLine is the largest length of a line, in bytes, with its CRLF: of a simple string, an
	// error or a number.
	MaxLine = 64 << 10
)

// Violation says which rule a server broke. Find it with errors.As. The connection cannot be
// used any more: every later Read returns the same Violation.
type Violation string

// Error names the broken rule.
func (v Violation) Error() string { return "the server " + string(v) }

// The rules that a server can break.
const (
	LongString  Violation = "announced a string of more than 64 MiB"
	LongReply   Violation = "sent a reply of more than 256 MiB"
	ManyValues  Violation = "announced a reply of more than 1048576 values"
	Deep        Violation = "nested values more than 8 deep"
	LongLine    Violation = "sent a line of more than 64 KiB"
	Streamed    Violation = "sent a value of no announced length"
	BadLength   Violation = "announced a length that is not a number"
	Negative    Violation = "announced a negative length"
	UnknownType Violation = "sent a value of an unknown type"
	NoLineEnd   Violation = "sent no CRLF where a line or a string must end"
	BadBoolean  Violation = "sent a boolean that is neither t nor f"
	InnerPush   Violation = "sent a push inside a reply"
	NoKind      Violation = "sent a push that does not say its kind"
	Unasked     Violation = "sent a reply that no command asked for"
	FewValues   Violation = "answered with fewer values than the command asks for"
	FewWords    Violation = "sent a message of a Sentinel with too few words"
	Unconfirmed Violation = "answered a subscription with something else"
)
