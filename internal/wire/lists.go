package wire

import (
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
	// Holder names the client that has used it last, to people. Left is how long it counts as in use.
	Holder string
	Left   time.Duration
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

// CommonNodes counts the nodes that two lists may have in common at most: an unknown id may be any.
func CommonNodes(a, b List) int {
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
		case id == "":
			unknown++
		}
	}
	for j, id := range b.IDs {
		if !used[j] && id == "" {
			unknown++
		}
	}
	return sure + min(unknown, len(a.IDs)-sure, len(b.IDs)-sure)
}
