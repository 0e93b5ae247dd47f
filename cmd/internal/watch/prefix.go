package watch

import (
	"strings"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// onNodes returns a name as the nodes know it, with the prefix. The name of a permit has the prefix in the name of
// its semaphore. All names here are without it, but for those in operations, commands and replies.
func onNodes(prefix, name string) string {
	if prefix == "" {
		return name
	}
	if semaphore, permit, ok := Permit(name); ok {
		return wire.SlotName(wire.PoolName(prefix+semaphore), permit)
	}
	return prefix + name
}

// withoutPrefix is the reverse of onNodes.
func withoutPrefix(prefix, name string) string {
	if semaphore, permit, ok := Permit(name); ok {
		return wire.SlotName(wire.PoolName(strings.TrimPrefix(semaphore, prefix)), permit)
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
