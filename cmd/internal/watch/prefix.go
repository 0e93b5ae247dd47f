package watch

import (
	"strings"

	"github.com/quorumlock/quorumlock/node"
)

// onNodes returns a name as the nodes know it, with the prefix. The name of a permit has the prefix in the name of
// its semaphore.
func onNodes(prefix, name string) string {
	if prefix == "" {
		return name
	}
	if semaphore, permit, ok := Permit(name); ok {
		return node.SlotName(node.PoolName(prefix+semaphore), permit)
	}
	return prefix + name
}

// withoutPrefix is the reverse of onNodes.
func withoutPrefix(prefix, name string) string {
	if semaphore, permit, ok := Permit(name); ok {
		return node.SlotName(node.PoolName(strings.TrimPrefix(semaphore, prefix)), permit)
	}
	return strings.TrimPrefix(name, prefix)
}

// hasPrefix reports whether a name on the nodes belongs to the programs with that prefix. The prefix alone is no name
// of theirs.
func hasPrefix(prefix, name string) bool {
	if semaphore, _, ok := Permit(name); ok {
		name = semaphore
	}
	return prefix == "" || len(name) > len(prefix) && strings.HasPrefix(name, prefix)
}

// shorten takes the prefix from all names. It makes copies: the askers keep the names of the nodes.
func (f *Facts) shorten(prefix string) {
	for i, name := range f.Names {
		f.Names[i] = withoutPrefix(prefix, name)
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		locks, kinds := make(map[string]Lock, len(n.Locks)), make(map[string]Kinds, len(n.Kinds))
		for name, l := range n.Locks {
			holders := make([]node.Holder, len(l.Holders))
			for k, h := range l.Holders {
				h.Name = withoutPrefix(prefix, h.Name)
				holders[k] = h
			}
			l.Holders = holders
			locks[withoutPrefix(prefix, name)] = l
		}
		for name, k := range n.Kinds {
			kinds[withoutPrefix(prefix, name)] = k
		}
		n.Locks, n.Kinds = locks, kinds
	}
}
