package node

import "strings"

// key is where the scripts keep something for a lock; see the function of that name there.
func key(kind, name string) string {
	tag := "{" + name + "}"
	if strings.Contains(name, "{") {
		tag = ":" + name
	}
	return "quorumlock:" + kind + ":" + tag
}
