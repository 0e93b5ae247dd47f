package node_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/inbox"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// credentials makes rueidis' AuthCredentialsFn of a function.
func credentials(ask func() (user, password string)) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		user, password := ask()
		return rueidis.AuthCredentials{Username: user, Password: password}, nil
	}
}

// A Sentinel does not get the credentials of the master, which it may not know, and which are not its business.
func TestRedisSentinelGetsItsOwnCredentials(t *testing.T) {
	t.Parallel()
	for _, sentinelPassword := range []string{"", "s3nt1nel"} {
		server := redisproc.Start(t, redisproc.WithACL("user locker on >secret ~* &* +@all"))
		admit(t, server)
		var opts []redisproc.Option
		if sentinelPassword != "" {
			opts = append(opts, redisproc.WithPassword(sentinelPassword))
		}
		sentinel := redisproc.StartSentinel(t, "mymaster", server, opts...)
		opt := rueidis.ClientOption{InitAddress: []string{sentinel.Addr()}}
		opt.Sentinel.MasterSet, opt.Sentinel.Password = "mymaster", sentinelPassword
		opt.AuthCredentialsFn = credentials(func() (string, string) { return "locker", "secret" })
		n := openWith(t, opt)
		want(t, wire.Granted, n, acquire("o1", "a"))
		wakes(t, n, "c:1", listen(t, n, "c"))
		assert.Contains(t, command(t, server, "CLIENT", "LIST"), "user=locker")
	}
}

// A provider may take longer than an exchange with the server.
func TestRedisInboxWithSlowCredentials(t *testing.T) {
	t.Parallel()
	server := redisproc.Start(t, redisproc.WithACL("user locker on >secret ~* &* +@all"))
	admit(t, server)
	var slow atomic.Bool
	opt := hasty(server.Addr())
	opt.Dialer.Timeout = patience
	opt.AuthCredentialsFn = credentials(func() (string, string) {
		if slow.Load() {
			time.Sleep(2 * impatient)
		}
		return "locker", "secret"
	})
	n := openWith(t, opt)
	eventually(t, wire.Granted, n, acquire("o1", "a"))
	slow.Store(true)
	var err error
	poll(t, func() bool {
		var in wire.Inbox
		if in, err = inbox.Listen(t.Context(), n, "c", false, func(wire.Message) {}); err == nil {
			require.NoError(t, in.Close())
		}
		return err == nil
	}, func() any { return err })
}
