package wire

import (
	"fmt"
	"strings"
)

// Key returns the key of one kind for a name; the scripts have a function of the same name.
//
// No two names share a key. All keys of a name have the hash tag of the name, or the whole name as their hash
// tag. A Redis Cluster therefore keeps them in the slot of the name itself. The exception is a name that
// has a '}' but no hash tag, such as "a}b": no hash tag can hold it.
func Key(kind, name string) string {
	before, behind := KeyAffixes(Tagged(name))
	return "quorumlock:" + kind + ":" + before + name + behind
}

// KeyAffixes returns the text before and after a name in its keys. It differs for names with a hash tag and
// names without one. The colon keeps the keys of the names "{a}" and "a" apart.
func KeyAffixes(tagged bool) (before, behind string) {
	if tagged {
		return ":", ""
	}
	return "{", "}"
}

// Tagged reports whether Redis finds a hash tag in a name: a '{' and a '}' behind it, with at least
// one byte between the first '{' and the first '}' that follows.
func Tagged(name string) bool {
	begin := strings.IndexByte(name, '{')
	return begin >= 0 && strings.IndexByte(name[begin+1:], '}') > 0
}

// HashTag returns the hash tag of a key, or the whole key if it has none.
func HashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
		return tag
	}
	return key
}

// fixedKey returns a key that a node has once. For a slot of a cluster, the hash tag follows it.
func fixedKey(name, tag string) string {
	if tag == "" {
		return name
	}
	return name + ":{" + tag + "}"
}

// UnseenIdentity begins the identity in the marker of a node whose server shows scripts none.
const UnseenIdentity = "unseen"

// MarkerKey returns the key of the marker of a node. The tag is node.Options.Tag, empty for a node that is no slot
// of a cluster.
func MarkerKey(tag string) string { return fixedKey("quorumlock:node", tag) }

// FencesKey returns the key of the fencing tokens that a node remembers, for a tag as in MarkerKey.
func FencesKey(tag string) string { return fixedKey("quorumlock:fences", tag) }

// TagPrefix returns the prefix of all names of a client, if some of its nodes are slots of clusters with these tags.
// Without a hash tag of its own, the prefix comes behind "{tag}:". All tags must be the same, since all nodes know a
// lock by the same name. Empty tags do not count.
func TagPrefix(prefix string, tags ...string) (string, error) {
	tag := ""
	for _, t := range tags {
		if t != "" && tag != "" && t != tag {
			return "", fmt.Errorf("node: the tags %q and %q of the addresses differ: all nodes of a client need the same tag", tag, t)
		}
		tag = max(tag, t)
	}
	switch {
	case tag == "" || Tagged(prefix) && HashTag(prefix) == tag:
		return prefix, nil
	case strings.ContainsAny(prefix, "{}"):
		return "", fmt.Errorf("node: the prefix %q does not have the hash tag {%s} of the addresses: write {%s} in it, or no brace", prefix, tag, tag)
	default:
		return "{" + tag + "}:" + prefix, nil
	}
}

// MayBeLock reports whether a key can be a lock, and is not one of the library's own keys.
func MayBeLock(key string) bool {
	if !strings.HasPrefix(key, "quorumlock:") {
		return true
	}
	_, _, permit := Permit(key)
	return permit
}

// IsLock reports whether the holder of a name that [Endpoint.List] returned holds a lock: it expires, and its owner looks like one
// of this library or of Redisson.
func (h Holder) IsLock() bool {
	id, _, _ := strings.Cut(h.Owner, " ")
	client, number, _ := strings.Cut(id, ":")
	return h.TTL != NoExpiry && (h.Reads || client != "" && number != "" && strings.Trim(number, "0123456789") == "")
}

// Permit splits the name of a permit's lock into the semaphore and the number of the permit.
func Permit(name string) (semaphore string, permit int, ok bool) {
	pool, slots, ok := Vacated(name)
	if !ok || len(slots) != 1 || SlotName(pool, slots[0]) != name {
		return "", 0, false
	}
	semaphore = strings.TrimPrefix(pool, poolPrefix+":")
	if tagged, ok := strings.CutPrefix(semaphore, ":"); ok {
		semaphore = tagged
	} else {
		semaphore = strings.TrimSuffix(strings.TrimPrefix(semaphore, "{"), "}")
	}
	return semaphore, slots[0], PoolName(semaphore) == pool
}

// WithPrefix returns a name as the nodes know it, with the prefix. The name of a permit has the prefix in the name of its
// semaphore.
func WithPrefix(prefix, name string) string {
	return renamed(prefix, name, func(name string) string { return prefix + name })
}

// WithoutPrefix is the reverse of WithPrefix.
func WithoutPrefix(prefix, name string) string {
	return renamed(prefix, name, func(name string) string { return strings.TrimPrefix(name, prefix) })
}

func renamed(prefix, name string, change func(string) string) string {
	if prefix == "" {
		return name
	}
	if semaphore, permit, ok := Permit(name); ok {
		return SlotName(PoolName(change(semaphore)), permit)
	}
	return change(name)
}

// HasPrefix reports whether a name on the nodes belongs to the programs with that prefix. The prefix alone is no name of
// theirs.
func HasPrefix(prefix, name string) bool {
	if semaphore, _, ok := Permit(name); ok {
		name = semaphore
	}
	return prefix == "" || len(name) > len(prefix) && strings.HasPrefix(name, prefix)
}
