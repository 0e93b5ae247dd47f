package decision

// ListsAgree reports whether programs may use two lists of nodes beside each other: a nodes and b nodes, of which common
// are the same. They may if every majority of the one shares a node with every majority of the other. A majority has the
// fewest common nodes if it has all nodes that the other list lacks. If even two such majorities have more common nodes
// together than there are, they share one.
//
// So a list of any length may stand beside itself with one node added or removed. With one node exchanged it may if the
// length is even: a majority has one node more than half then.
func ListsAgree(a, b, common int) bool {
	least := func(n int) int { return max(0, n/2+1-(n-common)) }
	return least(a)+least(b) > common
}
