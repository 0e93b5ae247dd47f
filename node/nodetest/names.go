package nodetest

import (
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/quorumlock/quorumlock/node"
)

// odd are names that some code on the way could misread. Names that begin with "quorumlock:" belong to the
// library.
var odd = []string{
	" ", "a b", "a\r\nb", "\x00", "\xff\xfe\x80", "Zürich", "ロック", "🔒",
	"{", "}", "{}", "}{", "{a}", "{a}:b", "x{a}y{b}", "%s", "*", "?", "[a]", `"a"`, `\`, "$1", "-1",
	"a:b", ":", "nil", "quorumlock", strings.Repeat("long", 4096),
}

// alike are names that some code on the way could confuse.
var alike = []string{"a", "A", "{a}", "a ", "a:", "{a}:", "{{a}}", "{a", "a}", ":{a}", "á", "a\u0301"}

var naming = []promise{
	{"any bytes make a name", func(x *trial) {
		for _, name := range odd {
			token := x.token()
			x.want(node.Granted, proposing(token, acquire("o1", long, name)))
			x.denied(acquire("o2", long, name), name, "o1")
			x.want(node.Granted, proposing(token, renew("o1", long, name)))
			x.holder(x.want(node.Inspected, inspect(name)).Holders[0], node.Holder{Name: name, Owner: "o1", TTL: long, Token: token})
			x.keys(name)
			x.want(node.Released, release("o1", name))
			x.keys()
		}
	}},
	{"any name can be forced", func(x *trial) {
		x.want(node.Granted, acquire("o1", long, odd...))
		r := x.want(node.Released, burying(force(long, odd...), "o2"))
		assert.Len(x, r.Holders, len(odd))
		for _, name := range odd {
			x.denied(renew("o1", long, name), name, "")
			x.denied(renew("o2", long, name), name, "")
		}
		x.keys()
	}},
	{"any bytes make an owner", func(x *trial) {
		for _, owner := range odd {
			x.want(node.Granted, acquire(owner, long, "a"))
			x.denied(acquire("o", long, "a"), "a", owner)
			x.want(node.Released, force(long, "a"))
			x.denied(renew(owner, long, "a"), "a", "")
		}
	}},
	{"names that look alike are different locks", func(x *trial) {
		for i, name := range alike {
			x.want(node.Granted, acquire(string(rune('0'+i)), long, name))
		}
		assert.Len(x, x.Keys(), len(alike))
	}},
	{"tombstones of names that look alike are different", func(x *trial) {
		for _, p := range [][2]string{{"a", "{a}"}, {"{a}", "a"}, {"{a}:b", "{a}"}, {":{a}", "{a}"}, {"a", "a "}} {
			owner := "o of " + p[0] + " and " + p[1]
			x.want(node.Absent, burying(force(long, p[0]), owner))
			x.want(node.Healed, renew(owner, long, p[1]))
			x.want(node.Released, release(owner, p[1]))
		}
	}},
}
