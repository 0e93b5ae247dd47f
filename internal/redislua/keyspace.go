package redislua

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// keyspace holds the keys of a server. A key that is past its end counts as absent.
type keyspace map[string]*key

// key is one key. The fields, the members or the text belong to its type.
type key struct {
	kind byte // hashKey, sortedSet or text
	// ends is the last millisecond of the key's life; 0 is never.
	ends    int64
	fields  map[string]string
	order   []string // of the fields: a small hash of Redis lists them as they came
	members []member // in order
	scores  map[string]float64
	text    text
}

const (
	hashKey   = 'h'
	sortedSet = 'z'
	textKey   = 's'
)

type member struct {
	score float64
	name  string
}

func compareMembers(a, b member) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
}

func newKey(kind byte) *key {
	k := &key{kind: kind}
	switch kind {
	case hashKey:
		k.fields = make(map[string]string)
	case sortedSet:
		k.scores = make(map[string]float64)
	}
	return k
}

func (ks keyspace) clone() keyspace {
	c := make(keyspace, len(ks))
	for name, k := range ks {
		copied := *k
		copied.fields, copied.scores = maps.Clone(k.fields), maps.Clone(k.scores)
		copied.order, copied.members, copied.text = slices.Clone(k.order), slices.Clone(k.members), k.text.clone()
		c[name] = &copied
	}
	return c
}

// rank returns the index of a member, or -1.
func (k *key) rank(name string) int {
	score, ok := k.scores[name]
	if !ok {
		return -1
	}
	at, _ := slices.BinarySearchFunc(k.members, member{score, name}, compareMembers)
	return at
}

func (k *key) put(m member) {
	k.remove(m.name)
	at, _ := slices.BinarySearchFunc(k.members, m, compareMembers)
	k.members = slices.Insert(k.members, at, m)
	k.scores[m.name] = m.score
}

func (k *key) remove(name string) (removed bool) {
	at := k.rank(name)
	if at < 0 {
		return false
	}
	k.members = slices.Delete(k.members, at, at+1)
	delete(k.scores, name)
	return true
}

func (k *key) setField(name, value string) (added bool) {
	if _, known := k.fields[name]; !known {
		k.order = append(k.order, name)
		added = true
	}
	k.fields[name] = value
	return added
}

func (k *key) removeField(name string) (removed bool) {
	if _, known := k.fields[name]; !known {
		return false
	}
	delete(k.fields, name)
	k.order = slices.DeleteFunc(k.order, func(f string) bool { return f == name })
	return true
}

// isEmpty reports whether Redis removes the key: a hash or a sorted set without elements.
func (k *key) isEmpty() bool {
	return k.kind == hashKey && len(k.fields) == 0 || k.kind == sortedSet && len(k.members) == 0
}

// text is the value of a key that is a text. It consists of pages, each of which may be replaced, but never changes: so a
// copy of a long text is cheap. An empty page stands for zeros.
type text struct {
	length int
	pages  []string
}

const pageSize = 1024

var zeros = strings.Repeat("\x00", pageSize)

func (t *text) clone() text { return text{t.length, slices.Clone(t.pages)} }

func (t *text) page(i int) string {
	if t.pages[i] == "" {
		return zeros
	}
	return t.pages[i]
}

// read returns the bytes from one offset up to another, which the text has.
func (t *text) read(from, to int) string {
	if first := from / pageSize; (to-1)/pageSize == first {
		return t.page(first)[from-first*pageSize : to-first*pageSize]
	}
	var b strings.Builder
	for from < to {
		i := from / pageSize
		end := min(to, (i+1)*pageSize)
		b.WriteString(t.page(i)[from-i*pageSize : end-i*pageSize])
		from = end
	}
	return b.String()
}

// write writes at an offset. Zeros fill the gap behind a shorter text.
func (t *text) write(at int, s string) {
	t.length = max(t.length, at+len(s))
	if missing := (t.length+pageSize-1)/pageSize - len(t.pages); missing > 0 {
		t.pages = append(t.pages, make([]string, missing)...)
	}
	for s != "" {
		i, from := at/pageSize, at%pageSize
		n := min(len(s), pageSize-from)
		before := t.page(i)
		var b strings.Builder
		b.Grow(pageSize)
		b.WriteString(before[:from])
		b.WriteString(s[:n])
		b.WriteString(before[from+n:])
		t.pages[i] = b.String()
		at, s = at+n, s[n:]
	}
}
