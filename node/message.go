package node

import (
	"strconv"
	"strings"
)

// MessageKind says what a [Message] is about.
type MessageKind uint8

// The kinds of message.
const (
	// Woken: a name is free, and the waiter is the first in its queue.
	Woken MessageKind = iota + 1
	// Standby: a name is free, and the first in its queue was woken. The waiter is the
	// second, and should try 30 ms later by itself, in case the first does not come.
	Standby
	// Returned: a name is free, and the waiter is the first in its queue but for one who was
	// granted it and gave it back, as other nodes denied.
	Returned
	// Resubscribed: the inbox was not listened to for a while, so that messages to any
	// waiter of the client may have been missed. It follows a Lost.
	Resubscribed
	// Lost: the inbox is not listened to from now on, until Resubscribed. It is not told when
	// the inbox is closed.
	Lost
	// Announced: a lock that is followed was released, as Redisson's clients are told; see
	// [Follower]. Others may have it by now.
	Announced
	// Counted: a latch may be done, or was deleted. The Waiter is the id of the client.
	Counted
)

// String returns the name of the kind.
func (k MessageKind) String() string {
	switch k {
	case Woken:
		return "woken"
	case Standby:
		return "standby"
	case Returned:
		return "returned"
	case Resubscribed:
		return "resubscribed"
	case Lost:
		return "lost"
	case Announced:
		return "announced"
	case Counted:
		return countedText
	default:
		return "unknown message"
	}
}

// Message is what an inbox receives.
type Message struct {
	Kind MessageKind
	// Waiter is the id of the waiter, and Name the lock; both are empty if Resubscribed or
	// Lost, and there is no Waiter if Announced.
	Waiter, Name string
	// Fence is the largest fencing token of the name that the node knows of, or 0 where
	// that is not told.
	Fence uint64
}

// inboxPrefix begins the channels of all inboxes.
const inboxPrefix = "quorumlock:inbox:"

// decodeMessage reads what the function reached of the scripts writes: kind, fence, length of
// the waiter's id, each with a space behind, the id, and the name. What is none of that is
// garbage by somebody else.
func decodeMessage(text string) (m Message, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	fence, rest, _ := strings.Cut(rest, " ")
	length, rest, ok := strings.Cut(rest, " ")
	switch kind {
	case "woken":
		m.Kind = Woken
	case "standby":
		m.Kind = Standby
	case "returned":
		m.Kind = Returned
	case countedText:
		m.Kind = Counted
	default:
		return Message{}, false
	}
	token, err1 := strconv.ParseUint(fence, 10, 64)
	n, err2 := strconv.ParseUint(length, 10, 31)
	if !ok || err1 != nil || err2 != nil || n == 0 || int(n) > len(rest) {
		return Message{}, false
	}
	m.Fence, m.Waiter, m.Name = token, rest[:n], rest[n:]
	return m, true
}
