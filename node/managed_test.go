package node_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// managed are servers that know as few commands as a managed service permits, by its documentation of 2026. The
// services themselves were not used: see docs/where-it-runs.md.
var managed = map[string]string{
	"ElastiCache": "BGREWRITEAOF BGSAVE CONFIG DEBUG MIGRATE REPLICAOF SAVE SLAVEOF SHUTDOWN SYNC",
	"Memorystore": "ACL BGREWRITEAOF BGSAVE CLIENT CLUSTER COMMAND CONFIG DEBUG LASTSAVE MIGRATE MONITOR OBJECT SHUTDOWN REPLICAOF SAVE",
	"OCI Cache":   "ACL BGREWRITEAOF BGSAVE CLUSTER CONFIG DEBUG MIGRATE MODULE PSYNC REPLICAOF SAVE SHUTDOWN SYNC",
	// A proxy that speaks RESP2 only, in front of a server without administration.
	"RESP2": "HELLO ACL CLIENT CLUSTER COMMAND CONFIG DEBUG MONITOR OBJECT REPLICAOF SHUTDOWN SLAVEOF",
}

// without returns the option of a server that does not know some commands.
func without(commands string) redisproc.Option {
	var args []string
	for name := range strings.FieldsSeq(commands) {
		args = append(args, "--rename-command", name, "")
	}
	return redisproc.WithArgs(args...)
}

// All operations work on a server that knows no command of administrators, with TLS or without. So do the recovery of a
// server that lost its memory, and the way back after a broken connection.
func TestRedisManagedServices(t *testing.T) {
	for service, missing := range managed {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			opts := []redisproc.Option{without(missing)}
			if service == "ElastiCache" {
				opts = append(opts, redisproc.WithTLS())
			}
			server := redisproc.Start(t, opts...)
			opt := rueidis.ClientOption{InitAddress: []string{server.Addr()}}
			if service == "ElastiCache" {
				opt.InitAddress[0], opt.TLSConfig = server.TLSAddr(), &tls.Config{RootCAs: server.CertPool(), MinVersion: tls.VersionTLS12}
			}
			n := openWith(t, opt)
			for i, r := range everything(n) {
				require.NoError(t, r.Err, "operation %d", i)
			}
			for i, r := range everyWait(t, server, n) {
				require.NoError(t, r.Err, "wait %d", i)
			}
			for i, r := range everyLatch(n, uint64(serverTime(t, server).UnixMicro())) {
				require.NoError(t, r.Err, "latch %d", i)
			}
			inbox := listen(t, n, "c")
			wakes(t, n, "c:1", inbox)

			relay := newRelay(t, server.Addr())
			through := open(t, relay.Addr())
			want(t, wire.Granted, through, acquire("o1", "lock:kept"))
			relay.Sever()
			want(t, wire.Granted, through, renew("o1", "lock:kept"))

			// Without its memory, the server gives no new rights, and lets the holder renew.
			server.Restart()
			want(t, wire.Healed, n, renew("o1", "lock:kept"))
			fails(t, node.ErrRecovering, n, acquire("o2", "lock:other"))
		})
	}
}

// Where CLIENT KILL is not permitted, commands of a broken connection may run at any later time. They take nothing from
// another owner, and grant nothing to a client that has given up: they can only leave a lock without a holder.
func TestRedisLateCommandsTakeNothing(t *testing.T) {
	server := start(t, redisproc.WithACL("user mute on >secret ~* &* +@all -client"))
	other := open(t, server.Addr())
	names := []string{"a", "b", "c"}
	each := func(op func(owner string, names ...string) wire.Op) (ops []wire.Op) {
		for _, name := range names {
			ops = append(ops, op("o1", name))
		}
		return ops
	}
	reading := func(op func(string, ...string) wire.Op) func(string, ...string) wire.Op {
		return func(owner string, names ...string) wire.Op { return reads(op(owner, names...)) }
	}
	for what, late := range map[string][]wire.Op{
		"acquisitions":              each(acquire),
		"renewals":                  each(renew),
		"releases":                  each(release),
		"acquisitions of readers":   each(reading(acquire)),
		"renewals of readers":       each(reading(renew)),
		"releases of readers":       each(reading(release)),
		"renewals, then releases":   append(each(renew), each(release)...),
		"releases, then renewals":   append(each(release), each(renew)...),
		"acquisitions and renewals": append(each(acquire), each(renew)...),
	} {
		t.Run(what, func(t *testing.T) {
			r := newRelay(t, server.Addr())
			opt := hasty(r.Addr())
			opt.Username, opt.Password = "mute", "secret"
			n := openWith(t, opt)
			warm(t, n)
			for _, op := range each(acquire) {
				eventually(t, wire.Granted, n, op)
			}
			r.holding.Store(true)
			timesOut(t, n, late)
			r.holding.Store(false)
			releases(t, n, each(release))
			for _, name := range names {
				want(t, wire.Granted, other, acquire("o2", name))
			}
			require.Positive(t, r.deliver(), "nothing was held back")
			for _, name := range names {
				holders := want(t, wire.Inspected, other, inspect(name)).Holders
				require.Len(t, holders, 1)
				assert.Equal(t, "o2", holders[0].Owner)
				want(t, wire.Released, other, release("o2", name))
			}
			assert.Empty(t, held(server))
		})
	}
}

// Redis Enterprise lets no script run INFO. The error names the option that accepts that.
func TestRedisWithoutInfoInScripts(t *testing.T) {
	for _, text := range []string{
		"ERR This Redis command is not allowed from script script: 9c3, on @user_script:7.",
		"ERR Error running script (call to f_9c3): @user_script:7: @user_script: 7: This Redis command is not allowed from scripts",
	} {
		n := open(t, redisproc.Serve(t, fake(always("-"+text+"\r\n"))).Addr())
		err := failure(t, node.ErrMisconfigured, n, acquire("o1", "a"))
		assert.True(t, err.Permanent())
		require.ErrorContains(t, err, "AllowUnseenLosses")
	}
}
