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
