// Package nodetest is the conformance suite of node.Node: the promises on which the coordinator relies, with
// one subtest for each. Every implementation passes it: on servers, in memory, and wrapped by faultinject.
//
// The promises are the files below testdata; the variable testdata tells their language. A few promises, mostly about many callers
// at once, are in Go.
package nodetest

import (
	"context"
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Subject is a node under test, with the means to act on its deployment from outside. All fields except
// Second are required.
type Subject struct {
	// Node is a handle on an empty deployment without a marker. The suite may close it.
	Node node.Node
	// Pass returns once at least d has passed on the deployment's own clock.
	Pass func(d time.Duration)
	// Plant puts a key that is not a lock, without a TTL.
	Plant func(key string)
	// Keys lists the names that are held now, sorted. It leaves out the marker, fences, tombstones and
	// planted keys.
	Keys func() []string
	// Forget makes the deployment lose everything, its marker too, and keep its identity, as FLUSHALL does.
	// Inboxes stay open.
	Forget func()
	// Restart brings the deployment back with all its data and another identity, like a restart from disk or
	// a failover. Handles may lose their connections, but work again when it returns.
	Restart func()
	// Second opens another handle on the same deployment, and closes it when the test ends. It is nil if
	// there can be only one.
	Second func() node.Node
}

// Run runs every subtest on a Subject of its own. It calls open once for each, with the subtest's t.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			for _, p := range g.promises {
				t.Run(p.name, func(t *testing.T) {
					p.kept(&trial{T: t, Subject: open(t), limits: limits, ctx: context.Background(), boxes: map[string]*box{}})
				})
			}
		})
	}
}

// group is the promises about one subject.
type group struct {
	name     string
	promises []promise
}

// promise is one behaviour of every node.
type promise struct {
	name string
	kept func(x *trial)
}

// testdata has one file for each group of promises. A line that is not indented is the name of a promise. The lines
// below it tell what happens, with the replies behind an arrow:
//
//	all or none: a denial leaves an own name as it was
//	  acquire o1 a ttl=20s; acquire o2 b ttl=20s -> granted
//	  acquire o1 a b -> denied b o2
//	  lives 20s a b
//
// Lines before the first promise begin each of them. A line that begins with # is a comment. A backslash at the end
// continues a line.
//
// Operations with a semicolon between them run one after the other, those with & in one batch, and so do those below a
// line "batch". The table verbs has the operations, and the method option their options, such as ttl=20s. for= takes the id
// of a waiter, and its ticket behind #. TTLs are a minute unless told otherwise.
//
// One expectation is for each operation of its line; several have a comma between them. "-" expects nothing. The first word
// is the outcome or the reason of the failure. Words behind it are flags, fields (ttl<=40s, token=t+1, born:=first), and
// for a denial the name, the owner and the TTL; in parentheses is a holder or the ids of a latch. A field that does not
// belong to a reply must be empty, and so must a field of a grant that is not mentioned: the token, the recovery, flags.
// A TTL without a sign is what is left of it: not more, and at most ten seconds less.
//
// Numbers are microseconds, durations, or variables, with a second number added or subtracted. A variable without a
// value becomes a new token, which is larger than all before it. The variable old is a token that is young enough and
// smaller than all of those; now is the node's clock.
//
// A word in quotes is a Go string. x{1..3} stands for x1 x2 x3, and @odd for a list of words; see lists. $n is the
// variable of a loop. The method line has all lines that are no operations.
//
//go:embed testdata
var testdata embed.FS

// step is one line of a promise, with the lines that are indented below it.
type step struct {
	at, text string
	body     []step
}

// groups returns all promises: those in text, and behind them those in Go about the same subject.
func groups() (groups []group) {
	files, err := testdata.ReadDir("testdata")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		text, err := testdata.ReadFile(path.Join("testdata", f.Name()))
		if err != nil {
			panic(err)
		}
		g := group{name: strings.ReplaceAll(strings.TrimSuffix(f.Name(), ".txt"), "_", " ")}
		var lines []step
		for i, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", ""), "\n") {
			if line = strings.TrimRight(line, " "); line != "" && !strings.HasPrefix(strings.TrimLeft(line, " "), "#") {
				lines = append(lines, step{at: fmt.Sprint(f.Name(), ":", i+1), text: line})
			}
		}
		first := slices.IndexFunc(lines, func(s step) bool { return s.text[0] != ' ' })
		begin, _ := nested(lines[:first], 0)
		for rest := lines[first:]; len(rest) > 0; {
			name := rest[0].text
			var body []step
			body, rest = nested(rest[1:], 0)
			g.promises = append(g.promises, promise{name, func(x *trial) { x.tell(begin, body) }})
		}
		g.promises = append(g.promises, inGo[g.name]...)
		groups = append(groups, g)
	}
	return groups
}

// nested returns the lines that are indented by more than this, each with those below it, and the rest.
func nested(lines []step, indent int) (body, rest []step) {
	for len(lines) > 0 {
		s := lines[0]
		deep := len(s.text) - len(strings.TrimLeft(s.text, " "))
		if deep <= indent {
			break
		}
		s.text = s.text[deep:]
		s.body, lines = nested(lines[1:], deep)
		body = append(body, s)
	}
	return body, lines
}

// word is one word of a line. It is plain if it has no quotes and no variable, so that it may be an option, a sign or
// the name of a list.
type word struct {
	text  string
	plain bool
}

func (w word) is(sign string) bool { return w.plain && w.text == sign }

// field takes a word like key=value apart.
var field = regexp.MustCompile(`(?s)^([a-z]+)(:=|<=|>=|!=|=|<|>)(.*)$`)

var (
	wordsIn = regexp.MustCompile(`(?:[^ "]|"(?:[^"\\]|\\.)*")+`)
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// scan splits a line into words. A parenthesis before or behind a word is one of its own, and so are a comma and a
// semicolon behind it.
func scan(line string) (words []word) {
	for _, text := range wordsIn.FindAllString(line, -1) {
		var behind []word
		if strings.HasPrefix(text, "(") {
			words, text = append(words, word{"(", true}), text[1:]
		}
		for text != "" && strings.ContainsAny(text[len(text)-1:], "),;") {
			behind, text = append(behind, word{text[len(text)-1:], true}), text[:len(text)-1]
		}
		if text != "" {
			plain := text[0] != '$' && text[0] != '"'
			text = quoted.ReplaceAllStringFunc(text, func(q string) string {
				q, _ = strconv.Unquote(q)
				return q
			})
			words = append(words, word{text, plain})
		}
		slices.Reverse(behind)
		words = append(words, behind...)
	}
	return words
}

func split(words []word, sign string) (parts [][]word) {
	for {
		at := slices.IndexFunc(words, func(w word) bool { return w.is(sign) })
		if at < 0 {
			return append(parts, words)
		}
		parts = append(parts, words[:at])
		words = words[at+1:]
	}
}

// odd are names that some code on the way could misread. Names that begin with "quorumlock:" belong to the
// library.
var odd = []string{
	" ", "a b", "a\r\nb", "\x00", "\xff\xfe\x80", "Zürich", "ロック", "🔒",
	"{", "}", "{}", "}{", "{a}", "{a}:b", "x{a}y{b}", "%s", "*", "?", "[a]", `"a"`, `\`, "$1", "-1",
	"a:b", ":", "nil", "quorumlock", strings.Repeat("long", 4096),
}

// alike are names that some code on the way could confuse.
var alike = []string{"a", "A", "{a}", "a ", "a:", "{a}:", "{{a}}", "{a", "a}", ":{a}", "á", "a\u0301"}

// lists has the words for which @ and a name stand. @0 is slot 0 of the pool; @2,0 are two slots in a message, and
// @none is no slot.
var lists = map[string][]string{
	"odd":     odd,
	"alike":   alike,
	"readers": {wire.Readers},
	"pool":    {wire.PoolName("pool")},
	"none":    {strings.Replace(wire.SlotName(wire.PoolName("pool"), 0), ":0:", "::", 1)},
	// Limits that differ from those of the suite in one way each.
	"others": {"121s,30s", "120s,31s", "120s,29s", "119s,30s", "121s,29s"},
}

var (
	loopVariable = regexp.MustCompile(`\$[a-z]+`)
	numbersIn    = regexp.MustCompile(`^(|.*\{)(\d+)\.\.(\d+)(|\}.*)$`)
	slotsIn      = regexp.MustCompile(`^@[\d,]+$`)
)

// words returns the words of a line, with all that its variables and lists stand for. A variable at the beginning may
// stand for several words.
func (x *trial) words(line string) (words []word) {
	if name := loopVariable.FindString(line); strings.HasPrefix(line, "$") {
		line = x.loops[name[1:]] + line[len(name):]
	}
	for _, w := range scan(line) {
		w.text = loopVariable.ReplaceAllStringFunc(w.text, func(name string) string {
			if value, ok := x.loops[name[1:]]; ok {
				return value
			}
			return name
		})
		if !w.plain {
			words = append(words, w)
			continue
		}
		if m := numbersIn.FindStringSubmatch(w.text); m != nil && !strings.Contains(m[1], "=") {
			for _, n := range numbers(m[2], m[3]) {
				words = append(words, word{strings.TrimSuffix(m[1], "{") + strconv.Itoa(n) + strings.TrimPrefix(m[4], "}"), false})
			}
			continue
		}
		if slotsIn.MatchString(w.text) {
			words = append(words, word{strings.Replace(lists["none"][0], "::", ":"+w.text[1:]+":", 1), false})
			continue
		}
		list, ok := lists[strings.TrimPrefix(w.text, "@")]
		if w.text[0] != '@' || !ok {
			words = append(words, w)
			continue
		}
		for _, text := range list {
			words = append(words, word{text, false})
		}
	}
	return words
}

// numbers counts from one number to another, up or down.
func numbers(from, to string) (numbers []int) {
	first, _ := strconv.Atoi(from)
	last, _ := strconv.Atoi(to)
	for n := min(first, last); n <= max(first, last); n++ {
		numbers = append(numbers, n)
	}
	if first > last {
		slices.Reverse(numbers)
	}
	return numbers
}
