package node

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// A script unpacks the values that the packer packed. The test covers the text lengths at which
// the encoding changes. It also covers the largest batch, and several arguments at once.
func TestServerUnpacksPackedTexts(t *testing.T) {
	server := redisproc.Start(t)
	opt, err := ParseOptions(server.Addr())
	require.NoError(t, err)
	r, err := newRedis(opt)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, r.Probe(context.Background()))

	var p msgpackWriter
	var packed []string
	var texts [][]string
	for _, n := range []int{0, 1, 31, 32, 255, 256, 1<<16 - 1, 1 << 16, 1 << 17} {
		texts = append(texts, []string{strings.Repeat("\x00\xff{a", n)[:n], "", "end"})
	}
	many := make([]string, 1+6*maxSpan) // as a batch of reservations has
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	texts = append(texts, many)
	for _, list := range texts {
		p.begin()
		for _, text := range list {
			p.add(text)
		}
		packed = append(packed, p.end())
	}
	p.begin()
	for _, n := range []uint64{0, 1, 9, 10, 1e15, math.MaxInt64, math.MaxUint64} {
		p.addNumber(n)
	}
	packed = append(packed, p.end())
	texts = append(texts, []string{"0", "1", "9", "10", "1000000000000000", "9223372036854775807", "18446744073709551615"})

	b := r.link.client.B
	for i, argument := range packed {
		cmd := b().Eval().Script("return cmsgpack.unpack(ARGV[1])").Numkeys(0).Arg(argument).Build()
		found, err := r.link.client.Do(context.Background(), cmd).AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, texts[i], found)
	}
}

// The next exchange reuses the buffer of the last one. After a reset, there is a new buffer: rueidis may
// still send from the old one.
func TestPackerMemory(t *testing.T) {
	var l link
	pack := func(text string) string {
		l.writer.packer.clear()
		l.writer.packer.begin()
		l.writer.packer.add(text)
		return l.writer.packer.end()
	}
	first := pack("first")
	kept := strings.Clone(first)
	l.reset()
	pack("other")
	require.Equal(t, kept, first)
	require.Zero(t, testing.AllocsPerRun(10, func() { pack("again") }))
}
