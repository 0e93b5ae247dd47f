package respguard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/respguard"
)

// tape is a connection from which a test reads a text of its choice, in fragments of its choice.
type tape struct {
	net.Conn
	text []byte
	// sizes are the lengths of the next fragments. The rest comes at once.
	sizes []int
	sent  bytes.Buffer
}

func (c *tape) Write(p []byte) (int, error) { return c.sent.Write(p) }

func (c *tape) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := len(c.text)
	if len(c.sizes) > 0 {
		n = max(1, min(n, c.sizes[0]))
		c.sizes = c.sizes[1:]
	}
	n = copy(p, c.text[:n])
	c.text = c.text[n:]
	return n, nil
}

// request is a command as clients write it.
func request(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// confirms is the confirmation of a subscription: an array, or another kind of aggregate.
func confirms(kind, verb, channel string) string {
	return kind + "3\r\n" + bulk(verb) + bulk(channel) + ":1\r\n"
}

// verdict sends the commands and reads the replies in fragments of these sizes. It returns the
// bytes that the guard let through, and the error at the end.
func verdict(t testing.TB, commands, replies string, sizes ...int) (passed string, err error) {
	t.Helper()
	c := &tape{text: []byte(replies), sizes: sizes}
	guard := respguard.New(c)
	_, err = io.WriteString(guard, commands)
	require.NoError(t, err)
	require.Equal(t, commands, c.sent.String())
	through, err := readAll(guard, len(replies))
	if err != nil {
		_, again := guard.Read(make([]byte, 10))
		require.Equal(t, err, again, "the connection stays broken")
	}
	return string(through), err
}

// writeIn writes a text in fragments of these sizes, and then the rest.
func writeIn(t testing.TB, w io.Writer, text string, sizes []int) {
	t.Helper()
	for _, size := range append(slices.Clone(sizes), len(text)) {
		n, err := io.WriteString(w, text[:min(size, len(text))])
		require.NoError(t, err)
		text = text[n:]
	}
}

// readAll reads to the end, with room for all of it.
func readAll(r io.Reader, size int) ([]byte, error) {
	all, buf := make([]byte, 0, size), make([]byte, size+1)
	for {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// fragmentations are ways to cut a text: at once, into bytes, and in two at each place of the
// first bytes.
func fragmentations(text string) (all [][]int) {
	all = append(all, nil, slices.Repeat([]int{1}, min(len(text), 1<<17)), slices.Repeat([]int{3}, min(len(text)/3, 1<<17)))
	if len(text) > 1<<12 {
		return append(all, []int{10}, []int{1000}, []int{len(text) - 1})
	}
	for at := 1; at < min(len(text), 100); at++ {
		all = append(all, []int{at})
	}
	return all
}

const (
	ping  = "*1\r\n$4\r\nPING\r\n"
	many  = 64
	three = "*3\r\n$7\r\nEVALSHA\r\n$1\r\nx\r\n$1\r\n0\r\n"
)

var pings = strings.Repeat(ping, many)

// All that servers say to this library.
var fine = map[string]string{
	"nothing":            "",
	"a simple string":    "+OK\r\n",
	"an empty line":      "+\r\n",
	"a CR in a line":     "+a\rb\r\r\n",
	"an error":           "-NOSCRIPT No matching script.\r\n",
	"a number":           ":-9223372036854775808\r\n",
	"a double":           ",-1.5e7\r\n",
	"a big number":       "(3492890328409238509324850943850943825024385\r\n",
	"a boolean":          "#t\r\n#f\r\n",
	"null":               "_\r\n",
	"an old null":        "$-1\r\n*-1\r\n",
	"a string":           "$5\r\na\r\nb\n\r\n",
	"an empty string":    "$0\r\n\r\n",
	"a verbatim string":  "=15\r\ntxt:Some string\r\n",
	"a long error":       "!21\r\nSYNTAX invalid syntax\r\n",
	"leading zeros":      "$0000000003\r\nabc\r\n",
	"an array":           "*3\r\n:1\r\n$1\r\na\r\n_\r\n",
	"an empty array":     "*0\r\n",
	"a set":              "~2\r\n+a\r\n+b\r\n",
	"a map":              "%2\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n",
	"an empty map":       "%0\r\n",
	"attributes":         "|1\r\n+ttl\r\n:3\r\n|0\r\n*2\r\n|1\r\n+a\r\n*1\r\n+b\r\n:1\r\n:2\r\n",
	"a push":             ">2\r\n+invalidate\r\n_\r\n",
	"a message":          ">3\r\n" + bulk("message") + bulk("channel") + bulk("text") + ":1\r\n",
	"8 levels":           strings.Repeat("*1\r\n", 8) + ":1\r\n",
	"8 levels, and back": "*2\r\n" + strings.Repeat("*1\r\n", 7) + "*0\r\n:2\r\n",
	"64 answers":         strings.Repeat(":1\r\n", many),
	"a value in parts":   "*2\r\n$4\r\n0123\r\n",
	"the longest line":   "+" + strings.Repeat("x", respguard.MaxLine-2) + "\r\n",
	"the longest string": bulk(strings.Repeat("x", respguard.MaxString)),
	"as many as may be":  fmt.Sprintf("*%d\r\n", respguard.MaxElements),
	"a map as large":     fmt.Sprintf("%%%d\r\n", respguard.MaxElements/2),
	"many, again and again": strings.Repeat(fmt.Sprintf("*4\r\n*%d\r\n%s*0\r\n*0\r\n*0\r\n", 1000,
		strings.Repeat(":1\r\n", 1000)), 20),
}

func TestGuardPassesValidReplies(t *testing.T) {
	for name, replies := range fine {
		t.Run(name, func(t *testing.T) {
			for _, sizes := range fragmentations(replies) {
				passed, err := verdict(t, pings, replies, sizes...)
				require.NoError(t, err, "cut at %v", sizes[:min(len(sizes), 3)])
				require.Equal(t, replies, passed)
			}
		})
	}
}

// broken are the replies that rueidis v1.0.79 cannot bear, and others that no server sends. In
// pipe.go and resp.go of rueidis:
//   - readB, readA and readMap reserve any announced length: out of memory, or a panic of makeslice;
//   - readBlobString and readE gather streamed values without an end;
//   - readS gathers a line without an end, and readNextMessage recurses without an end;
//   - _backgroundRead panics, in a goroutine, on an answer to no command, on a subscription that is
//     confirmed unasked, and on QUEUED for a subscription.
var broken = map[string]struct {
	replies string
	err     error
}{
	"a string of 100 GB":          {"$100000000000\r\n", respguard.LongString},
	"a string of 2^63 bytes":      {"$9223372036854775807\r\n", respguard.LongString},
	"a string of 2^64 + 1 bytes":  {"$18446744073709551617\r\nx\r\n", respguard.LongString},
	"a string of 1 MiB + 1":       {fmt.Sprintf("$%d\r\n", respguard.MaxString+1), respguard.LongString},
	"a verbatim string of 100 GB": {"=100000000000\r\n", respguard.LongString},
	"an error of 100 GB":          {"!100000000000\r\n", respguard.LongString},
	"an array of 10^9":            {"*1000000000\r\n", respguard.ManyValues},
	"an array that is too large":  {fmt.Sprintf("*%d\r\n", respguard.MaxElements+1), respguard.ManyValues},
	"a set of 10^9":               {"~1000000000\r\n", respguard.ManyValues},
	"a map of 10^9":               {"%1000000000\r\n", respguard.ManyValues},
	"a map that is too large":     {fmt.Sprintf("%%%d\r\n", respguard.MaxElements/2+1), respguard.LongReply},
	"a map of 2^63":               {"%9223372036854775807\r\n", respguard.ManyValues},
	"a push of 10^9":              {">1000000000\r\n", respguard.ManyValues},
	"attributes of 10^9":          {"|1000000000\r\n", respguard.ManyValues},
	"attributes without an end":   {strings.Repeat("|0\r\n", respguard.MaxElements+1), respguard.LongReply},
	"much at each level": {
		strings.Repeat(fmt.Sprintf("*%d\r\n", respguard.MaxElements/4), 5), respguard.LongReply,
	},
	"a negative array":           {"*-7\r\n", respguard.Negative},
	"a negative map":             {"%-1\r\n", respguard.Negative},
	"negative attributes":        {"|-1\r\n", respguard.Negative},
	"a negative push":            {">-1\r\n", respguard.Negative},
	"a negative set":             {"~-1\r\n", respguard.Negative},
	"a negative string":          {"$-2\r\n", respguard.Negative},
	"a negative zero":            {"$-0\r\n", respguard.Negative},
	"a negative error":           {"!-1\r\n", respguard.Negative},
	"a streamed string":          {"$?\r\n;4\r\nabcd\r\n;0\r\n", respguard.Streamed},
	"a streamed array":           {"*?\r\n:1\r\n.\r\n", respguard.Streamed},
	"a streamed map":             {"%?\r\n", respguard.Streamed},
	"a chunk":                    {";4\r\nabcd\r\n", respguard.Streamed},
	"an end of a stream":         {".\r\n", respguard.Streamed},
	"a line without an end":      {"+" + strings.Repeat("x", respguard.MaxLine+1), respguard.LongLine},
	"a line that is too long":    {"-" + strings.Repeat("x", respguard.MaxLine-1) + "\r\n", respguard.LongLine},
	"a number without an end":    {":" + strings.Repeat("1", respguard.MaxLine+1), respguard.LongLine},
	"a length without an end":    {"$" + strings.Repeat("0", respguard.MaxLine), respguard.BadLength},
	"no length":                  {"$\r\n", respguard.BadLength},
	"a length in words":          {"*x\r\n", respguard.BadLength},
	"a length with a plus":       {"$+5\r\n", respguard.BadLength},
	"a length with a space":      {"$5 \r\n", respguard.BadLength},
	"a length that ends in LF":   {"$5\nabcde\r\n", respguard.BadLength},
	"a length and no LF":         {"$5\rabcde\r\n", respguard.NoLineEnd},
	"9 levels":                   {strings.Repeat("*1\r\n", 9), respguard.Deep},
	"9 levels of maps":           {strings.Repeat("%1\r\n", 9), respguard.Deep},
	"9 levels of attributes":     {strings.Repeat("|1\r\n", 9), respguard.Deep},
	"levels without an end":      {strings.Repeat("*1\r\n", 1<<16), respguard.Deep},
	"no CRLF behind a string":    {"$3\r\nabcdef", respguard.NoLineEnd},
	"half of a CRLF":             {"$3\r\nabc\rd", respguard.NoLineEnd},
	"a line that ends in LF":     {"+OK\n", respguard.NoLineEnd},
	"a null that says something": {"_x\r\n", respguard.NoLineEnd},
	"another boolean":            {"#y\r\n", respguard.BadBoolean},
	"a long boolean":             {"#true\r\n", respguard.NoLineEnd},
	"another type":               {"?what\r\n", respguard.UnknownType},
	"HTTP":                       {"HTTP/1.1 400 Bad Request\r\n", respguard.UnknownType},
	"an answer too many":         {strings.Repeat(":1\r\n", many+1), respguard.Unasked},
	"an array too many":          {strings.Repeat(":1\r\n", many) + "*0\r\n", respguard.Unasked},
	"attributes, and too many":   {strings.Repeat(":1\r\n", many) + "|1\r\n+a\r\n+b\r\n:1\r\n", respguard.Unasked},
	"a push inside":              {"*1\r\n>2\r\n+a\r\n+b\r\n", respguard.InnerPush},
	"an empty push":              {">0\r\n", respguard.NoKind},
	"a push that is a number":    {">1\r\n:1\r\n", respguard.NoKind},
	"a push that is null":        {">1\r\n$-1\r\n", respguard.NoKind},
	"a push with attributes":     {">1\r\n|1\r\n+a\r\n+b\r\n+c\r\n", respguard.NoKind},
	"confirmed without a cause":  {confirms(">", "subscribe", "a"), respguard.Unasked},
	"ended without a cause":      {confirms(">", "unsubscribe", "a"), respguard.Unasked},
}

func TestGuardStopsInvalidReplies(t *testing.T) {
	for name, c := range broken {
		t.Run(name, func(t *testing.T) {
			for _, sizes := range fragmentations(c.replies) {
				passed, err := verdict(t, pings, c.replies, sizes...)
				require.Equal(t, c.err, err, "cut at %v", sizes[:min(len(sizes), 3)])
				require.True(t, strings.HasPrefix(c.replies, passed))
				require.Less(t, len(passed), len(c.replies))
			}
			// It is no better behind other replies.
			passed, err := verdict(t, pings+pings, ":1\r\n"+c.replies)
			if c.err != respguard.Unasked { //nolint:errorlint // the guard wraps nothing
				require.Equal(t, c.err, err)
				require.Empty(t, passed, "the guard passes on nothing of a fragment that breaks a rule")
			}
		})
	}
}

// A reply may be of 8 MiB, be it of strings, of lines or of values, and the replies to commands under way of
// 32 MiB together.
func TestGuardBoundsReplies(t *testing.T) {
	read := func(commands string, replies ...string) error {
		guard := respguard.New(&parade{parts: replies})
		_, err := io.WriteString(guard, commands)
		require.NoError(t, err)
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{guard}, make([]byte, 1<<20))
		return err
	}
	const half = respguard.MaxReply / 2
	values := fmt.Sprintf("*%d\r\n", half/respguard.ValueSize) + strings.Repeat("_\r\n", half/respguard.ValueSize)
	text := "*4\r\n" + strings.Repeat(bulk(strings.Repeat("x", respguard.MaxString)), 4)
	line := "+" + strings.Repeat("x", respguard.MaxLine-2) + "\r\n"
	lines := fmt.Sprintf("*%d\r\n", half/respguard.MaxLine) + strings.Repeat(line, half/respguard.MaxLine)
	for _, half := range []string{values, text, lines} {
		require.NoError(t, read(pings, "*1\r\n", half))
		require.Equal(t, respguard.LongReply, read(pings, "*2\r\n", half, half))
		all := slices.Repeat([]string{half}, 10)
		require.Equal(t, respguard.LongReplies, read(pings, all...))
		require.NoError(t, read(pings, all[:7]...))
		guard := respguard.New(&parade{parts: all})
		for range all { // one after the other
			_, err := io.WriteString(guard, ping)
			require.NoError(t, err)
			_, err = io.ReadFull(guard, make([]byte, len(half)))
			require.NoError(t, err)
		}
	}
	small := bulk(strings.Repeat("x", respguard.SmallReply))
	require.NoError(t, read(strings.Repeat(ping, 1000), strings.Repeat(small, 1000)))
	messages := request("HELLO", "3") + request("SUBSCRIBE", "a") + ping
	require.NoError(t, read(messages, "+OK\r\n"+confirms(">", "subscribe", "a"), strings.Repeat(">3\r\n"+bulk("message")+bulk("a")+small, 1000)))
}

// parade is a connection from which several texts come, one after the other.
type parade struct {
	tape
	parts []string
}

func (c *parade) Read(p []byte) (int, error) {
	for len(c.text) == 0 {
		if len(c.parts) == 0 {
			return 0, io.EOF
		}
		c.text, c.parts = []byte(c.parts[0]), c.parts[1:]
	}
	return c.tape.Read(p)
}

func TestGuardCountsCommands(t *testing.T) {
	script := request("EVALSHA", strings.Repeat("x", 40), "1", "name", "", "\r\n*1\r\n")
	for _, c := range []struct {
		commands string
		count    int
	}{
		{"", 0},
		{ping, 1},
		{ping + three, 2},
		{three[:len(three)-1], 0},
		{script + script + script[:20], 2},
		{request("SET", "subscribe", strings.Repeat("v", 100_000)) + ping, 2},
		{request("SUBSCRIBER", "a"), 1},
		{request("HELLO", "3") + request("hello", "2", "AUTH", "3", "3"), 2},
	} {
		for _, sizes := range fragmentations(c.commands) {
			inner := &tape{}
			guard := respguard.New(inner)
			writeIn(t, guard, c.commands, sizes)
			require.Equal(t, c.commands, inner.sent.String())
			replies := strings.Repeat(":1\r\n", c.count)
			inner.text = []byte(replies)
			got, err := io.ReadAll(guard)
			require.NoError(t, err, "%.60q", c.commands)
			require.Equal(t, replies, string(got))
			inner.text = []byte(":1\r\n")
			_, err = guard.Read(make([]byte, 100))
			require.Equal(t, respguard.Unasked, err, "%.60q", c.commands)
		}
	}
}

// Commands that are no arrays of strings, or have any number of answers, are not counted.
func TestGuardDoesNotCountOddCommands(t *testing.T) {
	for _, commands := range []string{"PING\r\n", "*0\r\n", "*1\r\n:1\r\n", request("UNSUBSCRIBE"), "*x\r\n", "*99999999999999999999\r\n"} {
		_, err := verdict(t, commands, strings.Repeat(":1\r\n", 10)+confirms(">", "unsubscribe", "a")+":1\r\n")
		require.NoError(t, err, "%q", commands)
		_, err = verdict(t, commands, "*1000000000\r\n")
		require.Equal(t, respguard.ManyValues, err, "%q", commands)
	}
}

func TestGuardFollowsSubscriptions(t *testing.T) {
	const (
		hello   = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
		denied  = "-NOPERM this user has no permissions to run the 'subscribe' command\r\n"
		pong    = "+PONG\r\n"
		message = "3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\ntext\r\n"
		silence = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	)
	sub, unsub := request("SUBSCRIBE", "a", "b"), request("unsubscribe", "a", "b")
	both := func(kind, verb string) string { return confirms(kind, verb, "a") + confirms(kind, verb, "b") }
	for name, c := range map[string]struct {
		commands, replies string
		err               error
	}{
		"confirmed by pushes":     {hello + sub + ping, "+OK\r\n" + both(">", "subscribe") + pong, nil},
		"confirmed by arrays":     {ping + sub + ping, pong + both("*", "subscribe") + silence, nil},
		"pushes between":          {hello + sub + ping, "+OK\r\n>" + message + both(">", "subscribe") + ">" + message + pong, nil},
		"messages between arrays": {sub + sub + ping, both("*", "subscribe") + "*" + message + both("*", "subscribe") + silence + "*" + message, nil},
		"all kinds": {
			hello + request("PSUBSCRIBE", "a") + request("SSUBSCRIBE", "a") + request("PUNSUBSCRIBE", "a") + request("SUNSUBSCRIBE", "a"),
			"%0\r\n" + confirms(">", "psubscribe", "a") + confirms(">", "ssubscribe", "a") + confirms(">", "punsubscribe", "a") + confirms(">", "sunsubscribe", "a"),
			nil,
		},
		"ended":                          {hello + unsub + ping + sub, "+OK\r\n" + both(">", "unsubscribe") + pong + both(">", "subscribe"), nil},
		"ended in RESP2":                 {sub + unsub + ping, both("*", "subscribe") + both("*", "unsubscribe") + pong, nil},
		"denied":                         {sub + ping + sub, denied + pong + both("*", "subscribe"), nil},
		"denied in RESP3":                {hello + sub + ping, "+OK\r\n" + denied + pong, nil},
		"an array is no answer yet":      {hello + ping + sub, "*1\r\n+OK\r\n*2\r\n+subscribe\r\n+a\r\n" + both(">", "subscribe"), nil},
		"a pong too many":                {sub + ping, both("*", "subscribe") + silence + silence, respguard.Unasked},
		"a number too many":              {sub + ping, both("*", "subscribe") + silence + ":1\r\n", respguard.Unasked},
		"one confirmation too many":      {hello + sub + ping, "+OK\r\n" + both(">", "subscribe") + confirms(">", "subscribe", "c"), respguard.Unasked},
		"one array too many":             {sub + ping, both("*", "subscribe") + confirms("*", "subscribe", "c"), respguard.Unasked},
		"confirmed too early":            {hello + sub, both(">", "subscribe"), respguard.Unasked},
		"the other is confirmed":         {hello + sub, "+OK\r\n" + both(">", "unsubscribe"), respguard.Unasked},
		"confirmed as patterns":          {hello + sub, "+OK\r\n" + both(">", "psubscribe"), respguard.Unasked},
		"ended in between":               {hello + sub + unsub, "+OK\r\n" + confirms(">", "subscribe", "a") + confirms(">", "unsubscribe", "a"), respguard.Unasked},
		"queued":                         {hello + sub, "+OK\r\n+QUEUED\r\n", respguard.Unconfirmed},
		"answered by a pong":             {sub + ping, silence, respguard.Unconfirmed},
		"answered by an empty array":     {sub + ping, "*0\r\n", respguard.Unconfirmed},
		"answered by an old null":        {sub + ping, "*-1\r\n", respguard.Unconfirmed},
		"answered by another array":      {sub + ping, "*1\r\n+a\r\n", respguard.Unconfirmed},
		"confirmed and denied":           {hello + sub + ping, "+OK\r\n" + confirms(">", "subscribe", "a") + denied, respguard.Unconfirmed},
		"confirmed by arrays in RESP3":   {hello + sub + ping, "+OK\r\n" + both("*", "subscribe"), respguard.Unconfirmed},
		"a message that is a number":     {sub, both("*", "subscribe") + "*1\r\n:1\r\n", respguard.NoKind},
		"nothing in a message":           {sub, both("*", "subscribe") + "*0\r\n", respguard.Unasked},
		"a message before it is asked":   {ping, "*" + message + "*" + message, respguard.Unasked},
		"a word longer than all of ours": {hello + sub, "+OK\r\n" + both(">", "subscribe") + ">1\r\n$20\r\nsubscribesubscribesu\r\n:1\r\n", respguard.Unasked},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sizes := range fragmentations(c.replies) {
				passed, err := verdict(t, c.commands, c.replies, sizes...)
				require.Equal(t, c.err, err, "cut at %v", sizes[:min(len(sizes), 3)])
				if err == nil {
					require.Equal(t, c.replies, passed)
				}
			}
		})
	}
}

// A client takes the first values of these replies, and the words of these messages, without a look at
// their number.
func TestGuardDemandsWhatClientsTakeUnseen(t *testing.T) {
	const short = "short"
	sub, master := request("HELLO", "3")+request("SUBSCRIBE", "a"), request("Sentinel", "Get-Master-Addr-By-Name", "m")
	confirmed := "+OK\r\n" + confirms(">", "subscribe", "a")
	message := func(kind, channel, text string) string { return kind + "3\r\n" + bulk("message") + channel + text }
	for name, c := range map[string]struct {
		commands, replies string
		err               error
	}{
		"a master":                     {ping + master + ping, "+PONG\r\n*2\r\n+a\r\n+1\r\n+PONG\r\n", nil},
		"no master":                    {master + master + ping, "*-1\r\n-ERR No such master\r\n+PONG\r\n", nil},
		"no Sentinels":                 {request("SENTINEL", "SENTINELS", "m"), "*0\r\n", nil},
		"a role":                       {request("ROLE") + ping, "*3\r\n+master\r\n:1\r\n*0\r\n*0\r\n", nil},
		"an empty master":              {master, "*0\r\n", respguard.FewValues},
		"half of a master":             {ping + master, "+PONG\r\n*1\r\n+a\r\n", respguard.FewValues},
		"a set with half of one":       {master, "~1\r\n|1\r\n+a\r\n+b\r\n+a\r\n", respguard.FewValues},
		"no role":                      {ping + request("role"), "+PONG\r\n*0\r\n", respguard.FewValues},
		"no role behind attributes":    {request("ROLE"), "|1\r\n+a\r\n+b\r\n*0\r\n", respguard.FewValues},
		"no role after a subscription": {request("SUBSCRIBE", "a") + request("ROLE"), confirms("*", "subscribe", "a") + "*0\r\n", respguard.FewValues},
		"a Sentinel":                   {sub, confirmed + message(">", bulk("+sentinel"), bulk("sentinel id 127.0.0.1 1 @ m 127.0.0.1 2")), nil},
		"a new master":                 {sub, confirmed + message(">", bulk("+switch-master"), bulk("m 127.0.0.1 1 127.0.0.1 2")), nil},
		"another channel":              {sub, confirmed + message(">", bulk("+sdown"), bulk(short)) + message(">", bulk("+switch-masters"), bulk(short)), nil},
		"two parts of a message":       {sub, confirmed + ">2\r\n" + bulk("message") + bulk("+sentinel"), nil},
		"half of a Sentinel":           {sub, confirmed + message(">", bulk("+sentinel"), bulk("sentinel id 127.0.0.1")), respguard.FewWords},
		"half of a new master":         {sub, confirmed + message(">", bulk("+switch-master"), bulk("m 127.0.0.1 1 127.0.0.1")), respguard.FewWords},
		"half of a restart":            {sub, confirmed + message(">", bulk("+reboot"), bulk("master")), respguard.FewWords},
		"words in lines":               {sub, confirmed + message(">", "+"+"+sentinel\r\n", "+short\r\n"), respguard.FewWords},
		"a number for words":           {sub, confirmed + message(">", bulk("+sentinel"), ":1\r\n"), respguard.FewWords},
		"an array for words":           {sub, confirmed + message(">", bulk("+sentinel"), "*1\r\n"+bulk("a b c d")), respguard.FewWords},
		"null for words":               {sub, confirmed + message(">", bulk("+sentinel"), "_\r\n"), respguard.FewWords},
		"attributes between":           {sub, confirmed + message(">", "|1\r\n+a\r\n+b c d e\r\n"+bulk("+sentinel"), "|1\r\n+a\r\n+b c d e\r\n"+bulk(short)), respguard.FewWords},
		"a message that is an array":   {request("SUBSCRIBE", "a"), confirms("*", "subscribe", "a") + message("*", bulk("+sentinel"), bulk(short)), respguard.FewWords},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sizes := range fragmentations(c.commands) {
				guard := respguard.New(&tape{text: []byte(c.replies)})
				writeIn(t, guard, c.commands, sizes)
				_, err := readAll(guard, len(c.replies))
				require.Equal(t, c.err, err, "commands cut at %v", sizes[:min(len(sizes), 3)])
			}
			for _, sizes := range fragmentations(c.replies) {
				passed, err := verdict(t, c.commands, c.replies, sizes...)
				require.Equal(t, c.err, err, "cut at %v", sizes[:min(len(sizes), 3)])
				require.Equal(t, err == nil, passed == c.replies)
			}
		})
	}
}

// A connection that has subscribed gets the messages before a broken rule, even of one fragment.
func TestGuardPassesMessagesBeforeABrokenRule(t *testing.T) {
	confirmed := confirms("*", "subscribe", "a")
	message := confirms("*", "message", "a")
	for _, bad := range []string{"$100000000000\r\n", "?what", ":1\r\n", confirms("*", "subscribe", "a")} {
		for _, sizes := range fragmentations(confirmed + message + bad) {
			passed, err := verdict(t, request("SUBSCRIBE", "a"), confirmed+message+bad, sizes...)
			require.Error(t, err)
			require.True(t, strings.HasPrefix(passed, confirmed+message), "%q", passed)
			require.Less(t, len(passed), len(confirmed+message+bad))
		}
	}
}

func TestGuardPassesErrorsOfTheConnection(t *testing.T) {
	client, server := net.Pipe()
	guard := respguard.New(client)
	require.NoError(t, guard.SetReadDeadline(time.Now().Add(-time.Second)))
	_, err := guard.Read(make([]byte, 10))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.NoError(t, guard.SetReadDeadline(time.Time{}))
	require.NoError(t, server.Close())
	_, err = guard.Read(make([]byte, 10))
	require.ErrorIs(t, err, io.EOF)
	_, err = guard.Write([]byte(ping))
	require.Error(t, err)
	require.NoError(t, guard.Close())
}

// A check of the socket needs what lies below.
func TestGuardShowsTheSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	guard := respguard.New(conn)
	raw, ok := guard.(syscall.Conn)
	require.True(t, ok)
	control, err := raw.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, control.Control(func(fd uintptr) { assert.NotZero(t, fd) }))
	assert.Same(t, conn, guard.(interface{ NetConn() net.Conn }).NetConn())

	pipe, other := net.Pipe()
	defer func() { _, _ = pipe.Close(), other.Close() }()
	guard = respguard.New(pipe)
	_, ok = guard.(syscall.Conn)
	require.False(t, ok, "a pipe has no socket")
	assert.Same(t, pipe, guard.(interface{ NetConn() net.Conn }).NetConn())
}

func TestViolation(t *testing.T) {
	_, err := verdict(t, ping, "$100000000000\r\n")
	var v respguard.Violation
	require.ErrorAs(t, fmt.Errorf("wrapped: %w", err), &v)
	require.Equal(t, respguard.LongString, v)
	require.EqualError(t, err, "the server announced a string of more than 1 MiB")
	require.NotErrorIs(t, err, io.EOF)
}

func TestGuardAllocatesNothing(t *testing.T) {
	reply := []byte("*4\r\n$4\r\nname\r\n$5\r\nowner\r\n:1000\r\n:1700000000000000\r\n")
	inner := &tape{}
	guard := respguard.New(inner)
	buf, command := make([]byte, 4096), []byte(three)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		inner.sent.Reset()
		inner.text = reply
		if _, err := guard.Write(command); err != nil {
			t.Error(err)
		}
		if n, err := guard.Read(buf); err != nil || n != len(reply) {
			t.Error(n, err)
		}
	}))
}
