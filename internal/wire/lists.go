package wire

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// ListKey returns the key in which a node has the lists of nodes in use among clients with this prefix. A node that is a
// slot of a cluster has it in that slot, since the prefix has its hash tag.
func ListKey(prefix string) string { return "quorumlock:lists:" + prefix }

// ListOp has the arguments of an [Enlist]: the list of nodes that a client uses.
type ListOp struct {
	// Key is the key of the lists, by [ListKey].
	Key string
	// Own is the client's list.
	Own []ListedNode
	// Agreed are lists in use that the client has compared with its own.
	Agreed []List
	// NewID is the id that the node gets if it has none; empty for none.
	NewID string
	// Holder names the client to people. Life is how long the list counts as in use; 0 only reads the others.
	Holder string
	Life   time.Duration
}

// ListedNode is one node in a list. Two are the same if their addresses are equal, or their ids.
type ListedNode struct {
	// Address is the name of the node: see node.Node.
	Address string
	// ID is the id that the node has in its marker, or "" if the client does not know it.
	ID string
}

// ListReply is the answer to an [Enlist].
type ListReply struct {
	// ID is the id of the node.
	ID string
	// Others are lists in use that are not among the Agreed ones. If there are any, the client's list was not noted.
	Others []List
}

// List is a list of nodes in use.
type List struct {
	Nodes []ListedNode
	// Holder is the client that has used it last, and Left how long it still counts as in use.
	Holder string
	Left   time.Duration
}

// lineBreak separates the addresses of a list, and its ids.
const lineBreak = "\n"

// SortedList returns the list of the nodes with these names.
func SortedList(names []string) (list []ListedNode) {
	for _, name := range names {
		list = append(list, ListedNode{Address: Listable(name)})
	}
	slices.SortFunc(list, func(a, b ListedNode) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// Listable returns an address as it stands in a list.
func Listable(address string) string { return strings.ReplaceAll(address, lineBreak, " ") }

// ListTexts returns the addresses and the ids of a list as nodes keep them.
func ListTexts(nodes []ListedNode) (addresses, ids string) {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.ID
	}
	return strings.Join(Addresses(nodes), lineBreak), strings.Join(all, lineBreak)
}

// ParseList is the inverse of ListTexts.
func ParseList(addresses, ids string) (nodes []ListedNode) {
	all := strings.Split(ids, lineBreak)
	for i, address := range strings.Split(addresses, lineBreak) {
		n := ListedNode{Address: address}
		if i < len(all) {
			n.ID = all[i]
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Addresses returns the addresses of a list.
func Addresses(nodes []ListedNode) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Address
	}
	return names
}

// CommonNodes counts the nodes that two lists may have in common at most: an unknown id may be any.
func CommonNodes(a, b []ListedNode) int {
	rest := slices.Clone(b)
	sure, left, unknown := 0, 0, 0
	for _, x := range a {
		i := slices.IndexFunc(rest, func(y ListedNode) bool { return x.Address == y.Address || x.ID != "" && x.ID == y.ID })
		switch {
		case i >= 0:
			rest = slices.Delete(rest, i, i+1)
			sure++
		case x.ID == "":
			unknown++
			fallthrough
		default:
			left++
		}
	}
	for _, y := range rest {
		if y.ID == "" {
			unknown++
		}
	}
	return sure + min(left, len(rest), unknown)
}
