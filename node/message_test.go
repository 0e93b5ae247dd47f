package node

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestDecodeMessage(t *testing.T) {
	for text, want := range map[string]wire.Message{
		"woken 7 3 c:1a":                     {Kind: wire.Woken, Waiter: "c:1", Name: "a", Fence: 7},
		"standby 0 3 c:1a b 3 c:1":           {Kind: wire.Standby, Waiter: "c:1", Name: "a b 3 c:1"},
		"woken 18446744073709551615 1 c\xff": {Kind: wire.Woken, Waiter: "c", Name: "\xff", Fence: 1<<64 - 1},
		"woken 7 3 c: \r\n":                  {Kind: wire.Woken, Waiter: "c: ", Name: "\r\n", Fence: 7},
	} {
		got, ok := wire.DecodeMessage(text)
		assert.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
}

// The decoder returns a well-formed message or ignores the text.
func FuzzDecodeMessage(f *testing.F) {
	f.Add("woken 7 3 c:1a")
	f.Add("standby 18446744073709551615 1 \x00\xff")
	f.Add("woken 7 4294967296 a")
	f.Add("resubscribed 0 0 ")
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := wire.DecodeMessage(text)
		if !ok {
			require.Zero(t, m)
			return
		}
		require.Contains(t, []wire.MessageKind{wire.Woken, wire.Standby}, m.Kind)
		require.NotEmpty(t, m.Waiter)
		again, ok := wire.DecodeMessage(fmt.Sprintf("%v %d %d %s%s", m.Kind, m.Fence, len(m.Waiter), m.Waiter, m.Name))
		require.True(t, ok)
		require.Equal(t, m, again)
	})
}

// The reader bounds the length of a server's message.
func TestReadPushIsBounded(t *testing.T) {
	most := strings.Repeat("x", 1<<20)
	for said, want := range map[string][]string{
		fmt.Sprintf("$%d\r\n%s\r\n", len(most), most): {most},
		"*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n":              {"1", "2", "3", "4"},
		"*0\r\n":                                      {},
	} {
		values, err := readPush(bufio.NewReader(strings.NewReader(said)))
		require.NoError(t, err)
		require.Equal(t, want, values)
	}
	for _, said := range []string{
		fmt.Sprintf("$%d\r\n%sx\r\n", len(most)+1, most), "*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n", "*1\r\n$9999999999\r\n",
	} {
		_, err := readPush(bufio.NewReader(strings.NewReader(said)))
		require.ErrorIs(t, err, errProtocol, "%.40q", said)
	}
}

// Each pass of a lock is several messages. Reading one takes an allocation for each value, and one for the list.
func TestReadingAMessageAllocatesLittle(t *testing.T) {
	const text = "*3\r\n$7\r\nmessage\r\n$18\r\nquorumlock:inbox:c\r\n$29\r\nwoken 1700000000000000 3 c:1a\r\n"
	said := strings.NewReader(text)
	r := bufio.NewReader(said)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		said.Reset(text)
		push, err := readPush(r)
		if err != nil || len(push) != 3 {
			t.Error(push, err)
			return
		}
		if m, ok := wire.DecodeMessage(push[2]); !ok || m.Waiter != "c:1" || m.Name != "a" {
			t.Error(m, ok)
		}
	}), 4.0)
}

// The reader reads any text to its end or refuses it. It never reserves memory that the text does
// not fill.
func FuzzReadPush(f *testing.F) {
	for _, text := range []string{
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$3\r\nabc\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", "+OK\r\n", "-ERR no\r\n", ":1\r\n",
		"*1\r\n*1\r\n", "$1048577\r\n", "*3\r\n$1048576\r\n", "*-1\r\n", "\r\n", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := bufio.NewReader(strings.NewReader(text))
		read := 0
		for {
			values, err := readPush(r)
			if err != nil {
				require.NotErrorIs(t, err, io.ErrShortBuffer)
				break
			}
			require.LessOrEqual(t, len(values), maxValues)
			for _, v := range values {
				read += len(v)
			}
			require.LessOrEqual(t, read, len(text))
		}
	})
}
