package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A server looks at the slots of a large pool once for all waiters of a refresh: it does nothing else meanwhile.
func TestRefreshLooksAtTheSlotsOfAPoolOnce(t *testing.T) {
	server := redisproc.Start(t)
	r, err := New(Options{Addresses: []string{server.Addr()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	defer client.Close()
	do := func(args ...string) string {
		text, err := client.Do(context.Background(), client.B().Arbitrary(args...).Build()).ToString()
		require.NoError(t, err)
		return text
	}
	pool := wire.Pool{Name: wire.PoolName("x"), Size: 1024, Version: 1}
	do("EVAL", `redis.call('HSET', KEYS[2], 'o', 1)
	for i = 0, 1023 do
		redis.call('ZADD', KEYS[1], 2 ^ 45, i)
	end return 'done'`, "2", wire.IndexPrefix+wire.IndexRest(pool.Name), wire.SlotName(pool.Name, 0))
	op := wire.Op{Kind: wire.Refresh, TTL: 4 * time.Second, Names: []string{pool.Name}}
	for i := range 64 {
		w := wire.Waiter{ID: fmt.Sprintf("c:%d@50", i), Ticket: int64(i)}
		op.Waiting = append(op.Waiting, wire.Waiting{Waiter: w, Names: op.Names, Pool: pool})
	}
	do("CONFIG", "RESETSTAT")
	replies := make([]wire.Reply, 1)
	r.Do(context.Background(), []wire.Op{op}, replies)
	require.NoError(t, replies[0].Err)
	require.Len(t, replies[0].Standings, 64)
	for i, s := range replies[0].Standings {
		require.Equal(t, wire.Standing{Known: true, Rank: i, Holder: wire.Holder{Name: pool.Name, Owner: "o", TTL: s.Holder.TTL}}, s)
	}
	stats := do("INFO", "commandstats")
	require.NotContains(t, stats, "cmdstat_pttl")
	require.Regexp(t, `cmdstat_hkeys:calls=64,`, stats)
	require.Regexp(t, `cmdstat_zadd:calls=65,`, stats)
}
