package wire

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
	// Standby: a name is free, and the first in its queue was woken. The waiter is the second. It should try
	// by itself 30 ms later, in case the first does not come.
	Standby
	// Returned: a name is free, since a waiter gave it back after other nodes denied it. This waiter is the
	// first in the queue apart from that one.
	Returned
	// Resubscribed: the subscription works again, and messages to any waiter of the client may have been
	// missed. It follows a Lost.
	Resubscribed
	// Lost: the subscription is interrupted until Resubscribed. It is not sent when the inbox is closed.
	Lost
	// Announced: a lock was released, by the message for Redisson's clients on the channel Name; see [Endpoint.Listen]. Another
	// owner may hold it by now.
	Announced
	// Counted: a latch may be done, or was deleted. The Waiter is the id of the client.
	Counted
	// Forced: a forced release has taken a name from an owner, and left a tombstone. The Waiter is the id of the owner.
	// The message proves nothing: the owner's next renewal finds the tombstone.
	Forced
)

var messageNames = [...]string{
	Woken: "woken", Standby: "standby", Returned: "returned", Resubscribed: "resubscribed", Lost: "lost",
	Announced: "announced", Counted: "counted", Forced: "forced",
}

// String returns the name of the kind.
func (k MessageKind) String() string {
	if k == 0 || int(k) >= len(messageNames) {
		return "unknown message"
	}
	return messageNames[k]
}

// Message is what an inbox receives.
type Message struct {
	Kind MessageKind
	// Waiter is the id of the waiter or the owner, and Name the lock. Both are empty for Resubscribed and Lost; Waiter is
	// empty for Announced.
	Waiter, Name string
	// Fence is the largest fencing token of the name that the node knows, or 0 if the message has none.
	Fence uint64
}

// InboxPrefix begins the channels of all inboxes.
const InboxPrefix = "quorumlock:inbox:"

// Published decodes a published message. client is the one whose inboxes get it, or empty: then it is for each follower of
// Redisson.
func Published(channel, text string) (client string, m Message, ok bool) {
	if strings.HasPrefix(channel, RedissonPrefix) {
		return "", Message{Kind: Announced, Name: channel}, true
	}
	m, ok = DecodeMessage(text)
	return strings.TrimPrefix(channel, InboxPrefix), m, ok
}

// DecodeMessage parses a message of the script function reached: kind, fence, length of the waiter's id, each
// with a space after it, then the id and the name. It ignores the kind alive, by which scripts find out whether an
// inbox has a subscriber. Any other text comes from a program outside this library.
func DecodeMessage(text string) (m Message, ok bool) {
	kind, rest, _ := strings.Cut(text, " ")
	fence, rest, _ := strings.Cut(rest, " ")
	length, rest, ok := strings.Cut(rest, " ")
	for _, k := range []MessageKind{Woken, Standby, Returned, Counted, Forced} { // the others are not sent by scripts
		if k.String() == kind {
			m.Kind = k
		}
	}
	token, err1 := strconv.ParseUint(fence, 10, 64)
	n, err2 := strconv.ParseUint(length, 10, 31)
	if m.Kind == 0 || !ok || err1 != nil || err2 != nil || n == 0 || int(n) > len(rest) {
		return Message{}, false
	}
	m.Fence, m.Waiter, m.Name = token, rest[:n], rest[n:]
	return m, true
}

// RedissonPrefix begins the channels on which Redisson's clients announce the release of a lock.
const RedissonPrefix = "redisson_lock__channel:"

// RedissonChannel returns the channel of a lock; see the function announce of the scripts.
func RedissonChannel(name string) string {
	if strings.Contains(name, "{") {
		return RedissonPrefix + name
	}
	return RedissonPrefix + "{" + name + "}"
}

// RedissonNames returns the locks of a channel. There can be two: "a" and "{a}" have the same channel.
func RedissonNames(channel string) (names []string) {
	name, ok := strings.CutPrefix(channel, RedissonPrefix)
	if !ok || !strings.Contains(name, "{") {
		return nil
	}
	if inner := strings.TrimSuffix(strings.TrimPrefix(name, "{"), "}"); RedissonChannel(inner) == channel && inner != name {
		names = append(names, inner)
	}
	return append(names, name)
}
