package node_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// forListNodes runs a test on a node in memory and on a server.
func forListNodes(t *testing.T, test func(t *testing.T, nd node.Node)) {
	t.Run("memory", func(t *testing.T) { test(t, memory.New("n", nil)) })
	t.Run("server", func(t *testing.T) { test(t, open(t, redisproc.Start(t).Addr())) })
}

func tell(t *testing.T, nd node.Node, prefix string, list wire.ListOp) wire.ListReply {
	t.Helper()
	list.Key = wire.ListKey(prefix)
	replies := make([]wire.Reply, 1)
	nd.Do(t.Context(), []wire.Op{{Kind: wire.Enlist, List: &list}}, replies)
	require.NoError(t, replies[0].Err)
	return *replies[0].List
}

// listed makes a list for a minute, of nodes with addresses of one letter.
func listed(addresses string) wire.ListOp {
	l := wire.List{Terms: wire.TermsFor(wire.Limits{MaxTTL: time.Minute}), Holder: "me", Left: time.Minute}
	for _, a := range addresses {
		l.Addresses, l.IDs = append(l.Addresses, string(a)), append(l.IDs, "id of "+string(a))
	}
	return wire.ListOp{NewID: "new", Own: l}
}

func TestNodesKeepLists(t *testing.T) {
	forListNodes(t, func(t *testing.T, nd node.Node) {
		require.Equal(t, wire.ListReply{}, tell(t, nd, "", wire.ListOp{}), "there is nothing to read")
		require.Equal(t, wire.ListReply{ID: "new"}, tell(t, nd, "", listed("abc")))
		other := listed("abcde")
		other.NewID = "newer"
		r := tell(t, nd, "", other)
		assert.Equal(t, "new", r.ID, "the node has an id")
		require.Len(t, r.Others, 1)
		assert.Equal(t, listed("abc").Own.Addresses, r.Others[0].Addresses)
		assert.Equal(t, listed("abc").Own.IDs, r.Others[0].IDs)
		assert.Equal(t, "me", r.Others[0].Holder)
		assert.InDelta(t, time.Minute, r.Others[0].Left, float64(10*time.Second))
		require.Len(t, tell(t, nd, "", wire.ListOp{}).Others, 1, "the second list was not noted")

		other.Agreed = r.Others
		require.Empty(t, tell(t, nd, "", other).Others, "it was, beside a list that the client knows")
		require.Len(t, tell(t, nd, "", wire.ListOp{}).Others, 2)
		require.Len(t, tell(t, nd, "", listed("abc")).Others, 1, "the first client does not know the second list")

		// The same addresses are the same list, and replace it, with other ids.
		again := listed("abc")
		again.Own.IDs[1] = "a new server"
		again.Agreed = []wire.List{other.Own}
		require.Empty(t, tell(t, nd, "", again).Others)
		require.Len(t, tell(t, nd, "", other).Others, 1, "with these ids, nobody has compared it")
		require.Len(t, tell(t, nd, "", wire.ListOp{}).Others, 2)

		require.Empty(t, tell(t, nd, "other:", listed("xyz")).Others, "another prefix has lists of its own")
	})
}

// A list ends, and those that have not yet stay. The id of the node lasts.
func TestListsEnd(t *testing.T) {
	forListNodes(t, func(t *testing.T, nd node.Node) {
		short, long := listed("abc"), listed("abcd")
		short.Own.Left = 50 * time.Millisecond
		long.Agreed = []wire.List{short.Own}
		tell(t, nd, "", short)
		tell(t, nd, "", long)
		require.Eventually(t, func() bool { return len(tell(t, nd, "", wire.ListOp{}).Others) == 1 }, time.Minute, 10*time.Millisecond)
		short.Agreed = []wire.List{long.Own}
		require.Empty(t, tell(t, nd, "", short).Others)
		for range 20 { // on the goroutine of the test, so that no question is open at its end
			require.NotEmpty(t, tell(t, nd, "", wire.ListOp{}).Others, "the longer list stays, although the shorter one was noted last")
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, "new", tell(t, nd, "", wire.ListOp{}).ID)
	})
}

// A node that programs of a later protocol use grants nothing, and says so. It still renews and releases.
func TestMarkerOfALaterProtocol(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	want(t, wire.Granted, n, acquire("o1", "a"))
	command(t, server, "HSET", "quorumlock:node", "version", "2", "open", "")
	for _, op := range []wire.Op{acquire("o2", "b"), acquire("o1", "a"), marks, opens} {
		err := failure(t, node.ErrMisconfigured, n, op)
		assert.True(t, err.Permanent())
		assert.Contains(t, err.Error(), "protocol 2, and this program speaks protocol 1")
	}
	want(t, wire.Granted, n, renew("o1", "a"))
	want(t, wire.Released, n, release("o1", "a"))
	command(t, server, "HSET", "quorumlock:node", "version", "1")
	want(t, wire.Granted, n, acquire("o2", "a"))
}

// Protocol 0 kept the limits and the end of the recovery in the marker, and had no terms in the lists.
func TestDataOfProtocol0(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	command(t, server, "DEL", "quorumlock:node")
	command(t, server, "HSET", "quorumlock:node", "identity", server.ReplicationID(), "until", "0", "max_ttl", "7200000", "max_skew", "60000",
		"restarted", "0", "open", "master_replid:"+server.ReplicationID()+" 7200000 60000", "id", "n1")
	assert.Equal(t, limits.Recovery(), recovering(t, n, acquire("o1", "a")).Length)
	assert.Positive(t, want(t, wire.Healed, n, renew("o1", "a")).Recovering)

	at := time.Now().Add(time.Minute).UnixMilli()
	command(t, server, "HSET", wire.ListKey(""), "a:1\nb:1\nc:1", strconv.FormatInt(at, 10)+"\nolder\nn1\n\n")
	r := tell(t, n, "", listed("abc"))
	require.Len(t, r.Others, 1)
	assert.Equal(t, "older", r.Others[0].Holder)
	assert.Equal(t, []string{"a:1", "b:1", "c:1"}, r.Others[0].Addresses)
	assert.False(t, r.Others[0].Terms.Speak(listed("abc").Own.Terms), "programs of both protocols must not use the node together")
	assert.Equal(t, "n1", r.ID)
}

// The terms of a program may say more than this one understands. Its list still counts as one that this program has compared.
func TestListWithMoreTerms(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	own := listed("abc")
	at := time.Now().Add(time.Minute).UnixMilli()
	command(t, server, "HSET", wire.ListKey(""), own.Own.Terms.String()+" more\na\nb", strconv.FormatInt(at, 10)+"\nnewer\nid1\nid2")
	own.Agreed = tell(t, n, "", own).Others
	require.Len(t, own.Agreed, 1)
	require.Empty(t, tell(t, n, "", own).Others)
}

// A list whose ids are not as many as its addresses is damaged. Those who only read lists refuse it as clients do, because they
// compare each address with its id.
func TestDamagedListIsRefused(t *testing.T) {
	server := start(t)
	n := open(t, server.Addr())
	own := listed("abc")
	at := time.Now().Add(time.Minute).UnixMilli()
	command(t, server, "HSET", wire.ListKey(""), own.Own.Terms.String()+"\na", strconv.FormatInt(at, 10)+"\nme\nid1\nid2")
	for _, list := range []wire.ListOp{own, {}} {
		list.Key = wire.ListKey("")
		replies := do(n, wire.Op{Kind: wire.Enlist, List: &list})
		require.ErrorContains(t, replies[0].Err, "wrong form")
	}
}
