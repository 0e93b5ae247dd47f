package node_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

// A forced release takes a name from any number of readers, more than Lua can pass to one call. Each gets its tombstone, which
// costs a few commands however many there are.
func TestForcedReleaseOfManyReaders(t *testing.T) {
	const readers = 9000
	server := start(t)
	n := opened(t, open(t, server.Addr()))
	command(t, server, "EVAL", `for i = 1, ARGV[1] do redis.call('ZADD', KEYS[2], ARGV[2], 'c:' .. i) end
		redis.call('HSET', KEYS[1], 'quorumlock:readers', 1)
		return redis.call('PEXPIREAT', KEYS[1], ARGV[2]) + redis.call('PEXPIREAT', KEYS[2], ARGV[2])`,
		"2", "a", wire.Key("readers", "a"), strconv.Itoa(readers), strconv.FormatInt(1<<42, 10))
	command(t, server, "CONFIG", "RESETSTAT")
	want(t, wire.Released, n, force("a"))
	tombstones := wire.Key("tombstone", "a")
	assert.Equal(t, strconv.Itoa(readers), command(t, server, "HLEN", tombstones))
	assert.NotEqual(t, "-1", command(t, server, "PTTL", tombstones))
	stats := command(t, server, "INFO", "commandstats")
	assert.Contains(t, stats, "cmdstat_hset:calls=9000,")
	assert.NotContains(t, stats, "cmdstat_hmget")
	want(t, wire.Denied, n, reads(renew("c:9000", "a")))

	command(t, server, "HSET", tombstones, "c:1", "1", "c:2", "2")
	again := force("a")
	again.Buried = []string{"o1"}
	want(t, wire.Absent, n, again)
	require.Equal(t, strconv.Itoa(readers-2+1), command(t, server, "HLEN", tombstones), "those that have ended are gone")
}
