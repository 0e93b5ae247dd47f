package wire

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ListKey returns the key in which a node has the lists of nodes in use among clients with this prefix. A node that is a
// slot of a cluster has it in that slot, since the prefix has its hash tag.
func ListKey(prefix string) string { return "quorumlock:lists:" + prefix }

// List is a list of nodes that a client uses.
type List struct {
	// Addresses are the names of the nodes, sorted: see node.Node. IDs are the ids that these have in their markers, or "" where
	// the client does not know it. Two nodes are the same if their addresses are equal, or their ids.
	Addresses, IDs []string
	// Terms are those of the clients that use it. A node has several lists of the same nodes if their terms differ.
	Terms Terms
	// Field is the text of terms and addresses as a node has it, which may say more than this client understands; empty for an
	// own list.
	Field string
	// Holder names the client that has used it last, to people. Left is how long it counts as in use.
	Holder string
	Left   time.Duration
}

// Protocol is the version of the protocol that this client speaks, and OldestProtocol the oldest one beside which it works: see
// docs/protocol.md.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// Terms are what a client tells others besides its list of nodes.
type Terms struct {
	// Protocol is the version of the protocol, and Oldest the oldest one beside which the client works.
	Protocol, Oldest int
	Limits           Limits
}

// TermsFor returns the terms of this client with these limits.
func TermsFor(l Limits) Terms { return Terms{Protocol, OldestProtocol, l} }

// String returns the terms as they stand before the addresses in a list on a node.
func (t Terms) String() string {
	return fmt.Sprint(t.Protocol, t.Oldest, t.Limits.MaxTTL.Milliseconds(), t.Limits.MaxClockSkew.Milliseconds(), t.Limits.Recovery().Milliseconds())
}

// ParseTerms parses terms. A list without any is of protocol 0, in which the addresses came first. Of a protocol beside which this
// client does not work, it knows no more than the versions.
func ParseTerms(text string) (t Terms) {
	var ttl, skew, recovery int64
	n, _ := fmt.Sscan(text, &t.Protocol, &t.Oldest, &ttl, &skew, &recovery)
	if n < 2 {
		return Terms{}
	}
	t.Limits = Limits{time.Duration(ttl) * time.Millisecond, time.Duration(skew) * time.Millisecond, time.Duration(recovery) * time.Millisecond}
	return t
}

// Speak reports whether clients with these terms understand each other: neither is older than the other one can bear.
func (t Terms) Speak(other Terms) bool {
	return t.Protocol >= other.Oldest && other.Protocol >= t.Oldest
}

// ListOp has the arguments of an [Enlist].
type ListOp struct {
	// Key is the key of the lists, by [ListKey].
	Key string
	// Own is the client's list. The node does not note it if its Left is 0.
	Own List
	// Agreed are lists in use that the client has compared with its own.
	Agreed []List
	// NewID is the id that the node gets if it has none; empty for none.
	NewID string
}

// ListReply is the answer to an [Enlist].
type ListReply struct {
	// ID is the id of the node.
	ID string
	// Others are lists in use that are not among the Agreed ones. If there are any, the client's list was not noted.
	Others []List
}

// NewList returns the list of the nodes with these names.
func NewList(names []string) List {
	l := List{IDs: make([]string, len(names))}
	for _, name := range names {
		l.Addresses = append(l.Addresses, Listable(name))
	}
	slices.Sort(l.Addresses)
	return l
}

// Listable returns a text as it stands in a list on a node, where line breaks separate.
func Listable(text string) string { return strings.ReplaceAll(text, "\n", " ") }

// CommonNodes counts the nodes that two lists may have in common at most: an unknown id may be any. It also returns the
// addresses of those that only one list is known to have.
func CommonNodes(a, b List) (most int, onlyA, onlyB []string) {
	sure, unknown, used := 0, 0, make([]bool, len(b.IDs))
	for i, id := range a.IDs {
		same := func(j int) bool { return !used[j] && (a.Addresses[i] == b.Addresses[j] || id != "" && id == b.IDs[j]) }
		j := 0
		for j < len(used) && !same(j) {
			j++
		}
		switch {
		case j < len(used):
			used[j] = true
			sure++
			continue
		case id == "":
			unknown++
		}
		onlyA = append(onlyA, a.Addresses[i])
	}
	for j, id := range b.IDs {
		if used[j] {
			continue
		}
		if id == "" {
			unknown++
		}
		onlyB = append(onlyB, b.Addresses[j])
	}
	return sure + min(unknown, len(onlyA), len(onlyB)), onlyA, onlyB
}
