package decision

import "github.com/quorumlock/quorumlock/quorum"

// Usurper returns the owner that a majority of the nodes name as the holder of a lock. holders has
// one entry for each node: the owner that it named, or "" if it named none.
//
// Such an owner may be a valid holder under some rule. No other owner can be one, since two
// majorities share a node and a node has one holder of a name. Fewer nodes prove nothing, as a
// contender that is about to fail looks the same. The caller leaves out owners that came before its
// own.
func Usurper(holders []string) (owner string, ok bool) {
	need := quorum.Majority().Need(len(holders))
	for _, candidate := range holders {
		if candidate == "" {
			continue
		}
		named := 0
		for _, h := range holders {
			if h == candidate {
				named++
			}
		}
		if named >= need {
			return candidate, true
		}
	}
	return "", false
}

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
