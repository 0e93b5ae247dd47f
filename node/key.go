package node

import "strings"

// key is where the scripts keep something for a lock; see the function of that name there.
func key(kind, name string) string {
	before, behind := affixes(tagged(name))
	return "quorumlock:" + kind + ":" + before + name + behind
}

// affixes is what stands around a name, with or without a hash tag of its own, in keys that belong
// to it. The colon keeps the keys of the names "{a}" and "a" apart.
func affixes(tagged bool) (before, behind string) {
	if tagged {
		return ":", ""
	}
	return "{", "}"
}

// tagged reports whether a name has a hash tag, or might.
func tagged(name string) bool { return strings.IndexByte(name, '{') >= 0 }
