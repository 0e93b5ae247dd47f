package node_test

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

func TestParseAddress(t *testing.T) {
	for address, want := range map[string]struct {
		name           string
		user, password string
		db             int
		tls            string // the server's name
		dial           bool   // by a dialler of the address's own
	}{
		"localhost":                          {name: "localhost:6379"},
		"localhost:6380":                     {name: "localhost:6380"},
		"Redis.Example:6380":                 {name: "redis.example:6380"},
		":6380":                              {name: "localhost:6380"},
		"10.0.0.1":                           {name: "10.0.0.1:6379"},
		"10.0.0.1:1":                         {name: "10.0.0.1:1"},
		"10.0.0.1:65535":                     {name: "10.0.0.1:65535"},
		"[::1]:6380":                         {name: "[::1]:6380"},
		"[::1]":                              {name: "[::1]:6379"},
		"::1":                                {name: "[::1]:6379"},
		"[fe80::1%eth0]:6380":                {name: "[fe80::1%eth0]:6380"},
		"/run/Redis/a.sock":                  {name: "/run/Redis/a.sock", dial: true},
		"/run/100%#a?b@c.sock":               {name: "/run/100%#a?b@c.sock", dial: true},
		"redis:///3":                         {name: "localhost:6379", db: 3},
		"redis://":                           {name: "localhost:6379"},
		"redis://host":                       {name: "host:6379"},
		"redis://host/":                      {name: "host:6379"},
		"redis://host:6380":                  {name: "host:6380"},
		"redis://host:6380/":                 {name: "host:6380"},
		"redis://host:6380/?dial_timeout=1s": {name: "host:6380"},
		"redis://host:6380/3":                {name: "host:6380", db: 3},
		"redis://host:6380?db=4":             {name: "host:6380", db: 4},
		"redis://:pw@host":                   {name: "host:6379", password: "pw"},
		"redis://user:pw@host":               {name: "host:6379", user: "user", password: "pw"},
		"redis://user:p%40ss%2Fw%23rd%3F@host:1/2": {name: "host:1", user: "user", password: "p@ss/w#rd?", db: 2},
		"redis://[::1]:6380/1":                     {name: "[::1]:6380", db: 1},
		"valkey://host":                            {name: "host:6379"},
		"rediss://host":                            {name: "host:6379", tls: "host"},
		"rediss://user:pw@host:6380/1":             {name: "host:6380", user: "user", password: "pw", db: 1, tls: "host"},
		"valkeys://host":                           {name: "host:6379", tls: "host"},
		"unix:///run/a.sock":                       {name: "/run/a.sock", dial: true},
		"unix:///run/a%23b.sock":                   {name: "/run/a#b.sock", dial: true},
		"unix://user:pw@/run/a.sock?db=2":          {name: "/run/a.sock", user: "user", password: "pw", db: 2, dial: true},
		"redis://s1:1?addr=s2:2&master_set=m":      {name: "m@s1:1,s2:2"},
	} {
		opt, err := node.ParseAddress(address)
		require.NoError(t, err, address)
		assert.Equal(t, want.user, opt.Username, address)
		assert.Equal(t, want.password, opt.Password, address)
		assert.Equal(t, want.db, opt.SelectDB, address)
		assert.Equal(t, want.dial, opt.DialCtxFn != nil, address)
		require.Equal(t, want.tls != "", opt.TLSConfig != nil, address)
		if want.tls != "" {
			assert.Equal(t, want.tls, opt.TLSConfig.ServerName, address)
			assert.False(t, opt.TLSConfig.InsecureSkipVerify, address)
		}
		n, err := node.NewRedis(opt)
		require.NoError(t, err, address)
		assert.Equal(t, want.name, n.Name(), address)
	}
}

func TestParseAddressOptions(t *testing.T) {
	opt, err := node.ParseAddress("rediss://host?dial_timeout=2s&write_timeout=3s&protocol=2&client_name=me&skip_verify")
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, opt.Dialer.Timeout)
	assert.Equal(t, 3*time.Second, opt.ConnWriteTimeout)
	assert.True(t, opt.AlwaysRESP2)
	assert.Equal(t, "me", opt.ClientName)
	assert.True(t, opt.TLSConfig.InsecureSkipVerify)
}

// secret is a password at every place where it may stand by intention or mistake.
const secret = "s3cret"

func TestParseAddressRefuses(t *testing.T) {
	for _, address := range []string{
		"", " ", "host :1", "host\n", "\thost",
		"host:", "host:port:1", "1:2:3", "[::1", "::1]", "[::1]x", "[]",
		"host:0x50", "host:-1", "host:65536", "host:redis", "host:+1",
		"host/1", "host?db=1", "host#1", "host:1/2", "user:s3cret@host", "user:s3cret@host:1", "s3cret@host",
		"http://s3cret@host", "redis+tls://:s3cret@host", "://host", "redis:s3cret@host", "redis:/s3cret",
		"user:s3cret@redis://host", "s3cret://host", "redis://:s3cret@redis://host",
		"redis://host:port", "redis://host:65536", "redis://host:0", "redis://:1:2", "redis://:s3cret/@host", "redis://:s3%cret@host",
		"redis://:s3cret#@host", "redis://:1#s3cret@host", "redis://user:1?s3cret@host", "redis://user:1/s3cret@host",
		"redis://user:1/2?s3cret@host",
		"redis://host/x", "redis://host/-1", "redis://host/1/2", "redis://host?db=s3cret", "redis://host?db=-1",
		"redis://host?dial_timeout=s3cret", "redis://host?dial_timeout=-1s", "redis://host?write_timeout=s3cret",
		"rediss://host?skip_verify=s3cret", "redis://host?s3cret;", "redis://host?a=%zz",
		"unix://", "unix://host", "unix://host/path", "unix://:s3cret@", "unix:///a?db=x", "unix:///a#s3cret", "unix://:s3cret@host/a",
		"redis://host?addr=b:1", "redis://host?master_set=m&addr=:s3cret@b",
	} {
		opt, err := node.ParseAddress(address)
		if err == nil {
			_, err = node.NewRedis(opt)
		}
		if assert.Error(t, err, "%q is taken for %v", address, opt.InitAddress) {
			assert.NotContains(t, err.Error(), secret, address)
		}
	}
}

// FuzzParseAddress checks that a parsed address is one deployment that can be dialled. The error
// for any other address must not repeat it.
func FuzzParseAddress(f *testing.F) {
	for _, address := range []string{
		"host:1", "[::1]:1", "::1", "/a.sock", "redis://u:p@host:1/2?addr=b:1&master_set=m", "rediss://host", "unix://u:p@/a?db=1", "redis:///", "a@b", "://",
	} {
		f.Add(address, "p")
	}
	f.Fuzz(func(t *testing.T, address, password string) {
		parsed(t, address)
		parsed(t, "redis://user:"+password+"@host:1")
		parsed(t, "redis://"+url.UserPassword("user", password).String()+"@host:1")
		hidden(t, "redis://:"+password+"@host:1", password)
		hidden(t, password+"@redis://host", password)
		opt, err := node.ParseAddress("redis://" + url.UserPassword("user", password).String() + "@host:1")
		require.NoError(t, err)
		assert.Equal(t, password, opt.Password)
	})
}

// hidden requires that an error does not reveal a password. The message's own words do not count.
func hidden(t *testing.T, address, password string) {
	t.Helper()
	_, always := node.ParseAddress("nothing:at:all")
	if _, err := node.ParseAddress(address); err != nil && !strings.Contains(always.Error(), password) && len(password) > 2 {
		assert.NotContains(t, err.Error(), password)
	}
}

func parsed(t *testing.T, address string) {
	t.Helper()
	opt, err := node.ParseAddress(address)
	if err != nil {
		return
	}
	require.NotEmpty(t, opt.InitAddress)
	if opt.DialCtxFn != nil {
		require.True(t, strings.HasPrefix(opt.InitAddress[0], "/"), "%q", address)
		return
	}
	for _, a := range opt.InitAddress {
		host, port, err := net.SplitHostPort(a)
		require.NoError(t, err, "%q", address)
		require.NotEmpty(t, host)
		require.NotEmpty(t, port)
	}
	require.GreaterOrEqual(t, opt.SelectDB, 0)
	require.Equal(t, rueidis.ClientOption{}.Sentinel.Username, opt.Sentinel.Username)
}
