package redisproc

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadReply(t *testing.T) {
	for in, want := range map[string]string{
		"+OK\r\n":                       "OK",
		":12\r\n":                       "12",
		"$0\r\n\r\n":                    "",
		"$-1\r\n":                       "(nil)",
		"*-1\r\n":                       "(nil)",
		"*0\r\n":                        "",
		"$10\r\ntwo\r\nlines\r\n":       "two\r\nlines",
		"*2\r\n-ERR one\r\n+two\r\n":    "ERR one\ntwo",
		"*2\r\n*1\r\n:1\r\n$1\r\n2\r\n": "1\n2",
	} {
		r, err := readReply(bufio.NewReader(strings.NewReader(in)))
		require.NoError(t, err, "%q", in)
		assert.Equal(t, want, r.text(), "%q", in)
	}
}

func TestReadReplyRefusesNonsense(t *testing.T) {
	for _, in := range []string{"", "\r\n", "?\r\n", "$x\r\n", "$5\r\nab", "*2\r\n:1\r\n", "-ERR\r\n"} {
		_, err := readReply(bufio.NewReader(strings.NewReader(in)))
		require.Error(t, err, "%q", in)
	}
}
