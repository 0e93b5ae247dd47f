package respguard

// The limits of a server's replies.
const (
	// MaxString is the largest length of a string, in bytes.
	MaxString = 1 << 20
	// MaxReply is the largest size of a reply, in bytes: of all its strings and lines together, and of its
	// values with ValueSize each. The largest reply of this library that has a bound lists a latch: 1,000 ids
	// of 512 bytes.
	MaxReply = 8 << 20
	// MaxReplies is the largest size of the replies to the commands under way together, apart from
	// SmallReply for each.
	MaxReplies = 32 << 20
	SmallReply = 64 << 10
	// ValueSize is how many bytes a client reserves for each value that a reply announces. A key and its value in a map
	// are two.
	ValueSize = 40
	// MaxElements is the largest number of values that an aggregate may announce.
	MaxElements = MaxReply / ValueSize
	// MaxDepth is how deep aggregates may be nested.
	MaxDepth = 8
	// MaxLine is the largest length of a line, in bytes, with its CRLF: of a simple string, an
	// error or a number.
	MaxLine = 4 << 10
)

// Violation says which rule a server broke. Find it with errors.As. The connection cannot be
// used any more: every later Read returns the same Violation.
type Violation string

// Error names the broken rule.
func (v Violation) Error() string { return "the server " + string(v) }

// The rules that a server can break.
const (
	LongString  Violation = "announced a string of more than 1 MiB"
	LongReply   Violation = "sent a reply of more than 8 MiB"
	LongReplies Violation = "sent replies of more than 32 MiB together"
	ManyValues  Violation = "announced more than 209715 values"
	Deep        Violation = "nested values more than 8 deep"
	LongLine    Violation = "sent a line of more than 4 KiB"
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
