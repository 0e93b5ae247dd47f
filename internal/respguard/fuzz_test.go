package respguard_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/respguard"
)

// reader is a parser of RESP3 that knows nothing of fragments: it has the whole text.
type reader struct {
	rest []byte
	size int
}

var (
	errBad  = errors.New("this is no RESP, or too much of it")
	errMore = errors.New("there is more to come")
)

// line takes a line, without its CRLF.
func (r *reader) line() (string, error) {
	line, rest, found := bytes.Cut(r.rest, []byte("\n"))
	switch {
	case !found && len(line) > respguard.MaxLine:
		return "", errBad
	case !found:
		return "", errMore
	case len(line) >= respguard.MaxLine || !bytes.HasSuffix(line, []byte("\r")):
		return "", errBad
	}
	r.rest = rest
	return string(line[:len(line)-1]), nil
}

func (r *reader) length(most uint64) (int, error) {
	line, err := r.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(line, 10, 63)
	if err != nil || n > most || len(line) > 10 {
		return 0, errBad
	}
	return int(n), nil
}

// value takes a value at a depth, and returns its type.
func (r *reader) value(depth int) (kind byte, err error) {
	if len(r.rest) == 0 {
		return 0, errMore
	}
	kind, r.rest = r.rest[0], r.rest[1:]
	switch kind {
	case '+', '-', ':', ',', '(':
		line, err := r.line()
		r.size += len(line) + 2
		return kind, err
	case '_', '#':
		line, err := r.line()
		null, boolean := kind == '_' && line == "", kind == '#' && (line == "t" || line == "f")
		if err == nil && !null && !boolean {
			err = errBad
		}
		return kind, err
	case '$', '!', '=':
		return kind, r.text(kind)
	case '*', '~', '%', '|', '>':
		if kind == '>' && depth > 0 {
			return kind, errBad
		}
		if err := r.aggregate(kind, depth); err != nil || kind != '|' {
			return kind, err
		}
		return r.value(depth)
	default:
		return kind, errBad
	}
}

// text takes a string behind its type.
func (r *reader) text(kind byte) error {
	if kind == '$' && bytes.HasPrefix(r.rest, []byte("-1\r\n")) {
		r.rest = r.rest[4:]
		return nil
	}
	n, err := r.length(respguard.MaxString)
	r.size += n
	switch {
	case err != nil:
		return err
	case len(r.rest) < n+2:
		return errMore
	case string(r.rest[n:n+2]) != "\r\n":
		return errBad
	}
	r.rest = r.rest[n+2:]
	return nil
}

// aggregate takes all values of an aggregate behind its type.
func (r *reader) aggregate(kind byte, depth int) error {
	if kind == '*' && bytes.HasPrefix(r.rest, []byte("-1\r\n")) {
		r.rest = r.rest[4:]
		return nil
	}
	n, err := r.length(respguard.MaxElements)
	if err != nil {
		return err
	}
	if kind == '%' || kind == '|' {
		n *= 2
	}
	if r.size += n * respguard.ValueSize; kind == '|' {
		r.size += respguard.ValueSize
	}
	if r.size > respguard.MaxReply || n > 0 && depth == respguard.MaxDepth {
		return errBad
	}
	before := r.rest
	for i := range n {
		if _, err := r.value(depth + 1); err != nil {
			return err
		}
		if kind == '>' && i == 0 && !isKind(string(before[:len(before)-len(r.rest)])) {
			return errBad
		}
	}
	if kind == '>' && n == 0 {
		return errBad
	}
	return nil
}

// isKind reports whether a push may begin with this value, where nothing is subscribed.
func isKind(value string) bool {
	line, rest, _ := strings.Cut(value, "\r\n")
	word := line[1:]
	if line[0] == '$' {
		word, _ = strings.CutSuffix(rest, "\r\n")
	}
	verbs := []string{"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}
	return (line[0] == '+' || line[0] == '$') && line != "$-1" && !slices.Contains(verbs, word)
}

// read says whether all of a text is RESP, and how many of its values are replies.
func read(text string) (replies int, err error) {
	r := reader{rest: []byte(text)}
	for len(r.rest) > 0 {
		r.size = 0
		kind, err := r.value(0)
		if err != nil {
			return replies, err
		}
		if r.size > respguard.MaxReply {
			return replies, errBad
		}
		if kind != '>' {
			replies++
		}
	}
	return replies, nil
}

// orders are the commands that a fuzzed connection may have sent.
var orders = []string{
	ping, three, request("HELLO", "3"), request("SUBSCRIBE", "a"), request("UNSUBSCRIBE", "a", "b"), request("PSUBSCRIBE", "a"),
	request("UNSUBSCRIBE"), request("SELECT", "1"), request("ROLE"), request("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"),
}

// FuzzGuard lets a guard read anything behind any commands. The verdict must not depend on the
// fragments. A parser that knows nothing of fragments must take the same bytes, and there must be
// no more replies than commands.
func FuzzGuard(f *testing.F) {
	for _, replies := range fine {
		if len(replies) < 1<<10 {
			f.Add([]byte{0, 0, 0, 1}, replies, uint64(1))
		}
	}
	for _, c := range broken {
		if len(c.replies) < 1<<10 {
			f.Add([]byte{0}, c.replies, uint64(2))
		}
	}
	f.Add([]byte{2, 4, 0, 3}, "%0\r\n"+confirms(">", "unsubscribe", "a")+confirms(">", "unsubscribe", "b")+"+PONG\r\n"+confirms(">", "subscribe", "a"), uint64(3))
	f.Add([]byte{0, 3, 0}, "+PONG\r\n"+confirms("*", "subscribe", "a")+confirms("*", "message", "b")+"*2\r\n+pong\r\n+\r\n", uint64(4))
	f.Add([]byte{3, 5, 4}, "-NOPERM\r\n"+confirms("*", "psubscribe", "a")+confirms("*", "unsubscribe", "a"), uint64(5))
	f.Fuzz(func(t *testing.T, chosen []byte, replies string, seed uint64) {
		var commands strings.Builder
		plain := true
		for _, c := range chosen {
			order := orders[int(c)%len(orders)]
			plain = plain && !strings.Contains(strings.ToLower(order), "subscribe") && !slices.Contains(orders[8:], order)
			commands.WriteString(order)
		}
		whole, err := verdict(t, commands.String(), replies)

		random := rand.New(rand.NewPCG(seed, 0))
		sizes := make([]int, len(replies))
		for i := range sizes {
			sizes[i] = 1 + random.IntN(1+random.IntN(20))
		}
		passed, again := verdict(t, commands.String(), replies, sizes...)
		require.Equal(t, err, again)
		require.True(t, strings.HasPrefix(replies, passed))
		require.True(t, strings.HasPrefix(passed, whole))

		n, refErr := read(replies)
		if err != nil {
			special := !plain || errors.Is(err, respguard.FewWords)
			require.True(t, refErr != nil || special || n > len(chosen), "%v, but this is RESP", err)
			return
		}
		require.True(t, refErr != nil || replies == whole, "what is complete is passed on")
		if plain {
			require.NotErrorIs(t, refErr, errBad, "the guard let through what is no RESP")
			require.LessOrEqual(t, n, len(chosen))
		}
	})
}
