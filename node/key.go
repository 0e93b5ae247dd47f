package node

import "strings"

// key returns the key of one kind for a name; the scripts have a function of the same name.
//
// No two names share a key. All keys of a name have the hash tag of the name, or the whole name as their hash
// tag. A Redis Cluster therefore keeps them in the slot of the name itself. The exception is a name that
// has a '}' but no hash tag, such as "a}b": no hash tag can hold it.
func key(kind, name string) string {
	before, behind := keyAffixes(tagged(name))
	return "quorumlock:" + kind + ":" + before + name + behind
}

// keyAffixes returns the text before and after a name in its keys. It differs for names with a hash tag and
// names without one. The colon keeps the keys of the names "{a}" and "a" apart.
func keyAffixes(tagged bool) (before, behind string) {
	if tagged {
		return ":", ""
	}
	return "{", "}"
}

// tagged reports whether Redis finds a hash tag in a name: a '{' and a '}' behind it, with at least
// one byte between the first '{' and the first '}' that follows.
func tagged(name string) bool {
	begin := strings.IndexByte(name, '{')
	return begin >= 0 && strings.IndexByte(name[begin+1:], '}') > 0
}
