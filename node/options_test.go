package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

func TestParseOptions(t *testing.T) {
	for address, want := range map[string]struct{ name, tag string }{
		"redis://host:1?tag=ql":                              {"{ql}@host:1", "ql"},
		"redis://b:1?addr=a:2&addr=c:3&tag=ql":               {"{ql}@a:2,b:1,c:3", "ql"},
		"rediss://user:p%40ss@b:1?tag=a.b_c-1&skip_verify=1": {"{a.b_c-1}@b:1", "a.b_c-1"},
		"redis://host:1":                                     {"host:1", ""},
		"host:1":                                             {"host:1", ""},
		"redis://:tag=@host:1":                               {"host:1", ""},
	} {
		opt, err := node.ParseOptions(address)
		require.NoError(t, err, address)
		n, err := node.New(opt)
		require.NoError(t, err, address)
		assert.Equal(t, want.tag, n.(serverNode).Tag(), address)
		assert.Equal(t, want.name, n.Name(), address)
	}
	opt, err := node.ParseOptions("redis://user:p%40ss@b:1?tag=ql&write_timeout=3s")
	require.NoError(t, err)
	assert.Equal(t, "p@ss", opt.Password)
	assert.Equal(t, 3*time.Second, opt.Timeout)
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, address := range []string{
		"", "redis://host:1?tag=", "redis://host:1?tag={ql}", "redis://host:1?tag=a'b", "redis://host:1?tag=a b", "redis://host:1?tag=a&tag=b",
		"redis://host:1?tag=abcdefghijklmnopqrstuvwxyz0123456", "redis://host:1?tag=%0A",
		"redis://host:1/2?tag=ql", "redis://host:1?master_set=m&tag=ql", "unix:///run/a.sock?tag=ql", "redis://host:1?addr=b:2",
		"http://s3cret@host?tag=ql", "redis://:s3cret#@host?tag=ql",
	} {
		opt, err := node.ParseOptions(address)
		if err == nil {
			_, err = node.New(opt)
		}
		if assert.Error(t, err, address) {
			assert.NotContains(t, err.Error(), secret, address)
		}
	}
}

func TestTagPrefix(t *testing.T) {
	for _, c := range []struct {
		prefix string
		tags   []string
		want   string
	}{
		{"", nil, ""},
		{"billing:", nil, "billing:"},
		{"billing:", []string{"", ""}, "billing:"},
		{"", []string{"ql"}, "{ql}:"},
		{"billing:", []string{"", "ql", "ql"}, "{ql}:billing:"},
		{"{ql}:billing:", []string{"ql"}, "{ql}:billing:"},
		{"billing:{ql}:", []string{"ql"}, "billing:{ql}:"},
	} {
		prefix, err := wire.TagPrefix(c.prefix, c.tags...)
		require.NoError(t, err, c)
		assert.Equal(t, c.want, prefix, c)
	}
	_, err := wire.TagPrefix("{other}:", "ql")
	require.ErrorContains(t, err, "{other}:")
	_, err = wire.TagPrefix("", "a", "", "b")
	require.ErrorContains(t, err, "differ")
}

// A name in another slot fails alone, and is not sent.
func TestNamesInOtherSlotsAreRefused(t *testing.T) {
	n, err := node.New(node.Options{Addresses: []string{"127.0.0.1:1"}, Tag: "ql"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	replies := do(n, acquire("o1", "a"), acquire("o1", "{ql}:a", "b"), acquire("o1", "{ql}:a"))
	require.ErrorIs(t, replies[0].Err, node.ErrMisconfigured)
	require.ErrorIs(t, replies[1].Err, node.ErrMisconfigured)
	require.ErrorIs(t, replies[2].Err, node.ErrUnreachable)
	for _, r := range replies {
		assert.True(t, r.Unsent)
	}
}

// Whatever an address says reaches the client library.
func TestOptionsKeepWhatAnAddressSays(t *testing.T) {
	for _, address := range []string{
		"host", "rediss://u:p@host:1/2?dial_timeout=2s&write_timeout=3s&protocol=2&client_name=me&skip_verify",
		"redis://a:1?addr=b:2&master_set=m", "unix://u:p@/tmp/a?db=3", "/tmp/a",
	} {
		want, err := node.ParseAddress(address)
		require.NoError(t, err)
		opt, err := node.ParseOptions(address)
		require.NoError(t, err)
		got := opt.Client()
		require.Equal(t, want.DialCtxFn == nil, got.DialCtxFn == nil, "a socket has a dialler of its own")
		want.DialCtxFn, got.DialCtxFn = nil, nil
		assert.Equal(t, want, got, address)
	}
}
