package node

import (
	"errors"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestMovedTo(t *testing.T) {
	for reply, want := range map[string]string{
		"MOVED 3999 127.0.0.1:6381":       "127.0.0.1:6381",
		"MOVED 3999 redis-2.example:6381": "redis-2.example:6381",
		"MOVED 3999 ::1:6381":             "[::1]:6381",
		"MOVED 3999 [::1]:6381":           "[::1]:6381",
		"MOVED 3999 :6381":                "seed:6381", // the host of the server that replied
		"MOVED 3999 ?:6381":               "",
		"MOVED 3999 127.0.0.1:0":          "",
		"MOVED 3999 127.0.0.1":            "",
		"MOVED 3999":                      "",
		"ASK 3999 127.0.0.1:6381":         "",
		"CLUSTERDOWN The cluster is down": "",
	} {
		addr, ok := movedTo(replyError(reply), "seed:7000")
		assert.Equal(t, want != "", ok, reply)
		if ok {
			assert.Equal(t, want, addr, reply)
		}
	}
	_, ok := movedTo(errors.New("MOVED 3999 127.0.0.1:6381"), "seed:7000")
	assert.False(t, ok, "only a server moves a slot")
}

// While a slot moves, its owner stays the owner.
func TestRepliesThatLeaveTheSlot(t *testing.T) {
	for reply, leaves := range map[string]bool{
		"MOVED 3999 127.0.0.1:6381":       true,
		"CLUSTERDOWN The cluster is down": true,
		"Script attempted to execute a write command while the cluster is down and readonly": true,
		"ASK 3999 127.0.0.1:6381":                                          false,
		"TRYAGAIN Multiple keys request during rehashing of slot":          false,
		"Script attempted to access a non local key in a cluster node":     false,
		"Lua script attempted to access a non local key in a cluster node": false,
	} {
		err := replyError(reply)
		assert.Equal(t, ErrRejected, reasonOf(err), reply)
		assert.Equal(t, leaves, endsConnection(ErrRejected, err), reply)
	}
}

// walk asks each server in turn until the replies, by address, end the search.
func walk(o *slotOwner, replies map[string]error) (asked []string, err error) {
	search := o.search()
	for addr, ok := search.next(); ok; addr, ok = search.next() {
		asked = append(asked, addr)
		if replies[addr] == nil {
			return asked, nil
		}
		search.failed(addr, replies[addr])
	}
	return asked, search.err
}

func TestSlotSearch(t *testing.T) {
	moved := func(addr string) error { return replyError("MOVED 1 " + addr) }
	seeds := []string{"a:1", "b:1", "c:1"}
	for name, c := range map[string]struct {
		owner   string
		replies map[string]error
		asked   []string
		err     error
	}{
		"the first seed owns the slot":   {asked: []string{"a:1"}},
		"the known owner is asked first": {owner: "d:1", asked: []string{"d:1"}},
		"a seed names the owner":         {replies: map[string]error{"a:1": moved("d:1")}, asked: []string{"a:1", "d:1"}},
		"a seed is down":                 {replies: map[string]error{"a:1": io.EOF}, asked: []string{"a:1", "b:1"}},
		"the named owner is asked only once": {
			replies: map[string]error{"a:1": moved("d:1"), "b:1": moved("d:1"), "c:1": moved("d:1"), "d:1": io.EOF},
			asked:   []string{"a:1", "d:1", "b:1", "c:1"}, err: io.EOF,
		},
		"servers name each other": {
			replies: map[string]error{"a:1": moved("b:1"), "b:1": moved("a:1"), "c:1": moved("a:1")},
			asked:   []string{"a:1", "b:1", "c:1"}, err: moved("a:1"),
		},
		"the old owner is cut off": {
			owner:   "d:1",
			replies: map[string]error{"d:1": replyError("CLUSTERDOWN"), "a:1": moved("e:1")},
			asked:   []string{"d:1", "a:1", "e:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, err := walk(&slotOwner{seeds: seeds, addr: c.owner}, c.replies)
			assert.Equal(t, c.asked, asked)
			assert.Equal(t, c.err, err)
		})
	}
}

// Servers of a broken cluster may name ever more servers.
func TestSlotSearchEnds(t *testing.T) {
	search := (&slotOwner{seeds: []string{"a0:1"}}).search()
	asked := 0
	for addr, ok := search.next(); ok; addr, ok = search.next() {
		asked++
		search.failed(addr, replyError("MOVED 1 "+addr[:1]+strings.Repeat("1", asked)+":1"))
	}
	assert.Equal(t, maxHops, asked)
}

func TestSlotOwnerIsForgotten(t *testing.T) {
	o := &slotOwner{seeds: []string{"a:1", "b:1"}, addr: "a:1"}
	o.lost(io.EOF)
	assert.Equal(t, "a:1", o.addr, "the server may have closed an idle connection")
	o.lost(replyError("MOVED 1 c:1"))
	assert.Equal(t, "c:1", o.addr)
	o.addr = "a:1"
	o.lost(replyError("CLUSTERDOWN The cluster is down"))
	assert.Empty(t, o.addr)
	assert.Equal(t, []string{"b:1", "a:1"}, o.seeds, "the seed is asked last")
}

// keyKinds are the beginnings of keys, fields and channels that continue with a name or an id. No script has a whole key, since
// it would lie in another slot than the locks.
var keyKinds = []string{"quorumlock:", "quorumlock:readers", "quorumlock:inbox:", "quorumlock:permit:", "quorumlock:permits", "quorumlock:slots"}

func TestScriptsHaveNoKeyOfTheirOwn(t *testing.T) {
	literal := regexp.MustCompile(`'(quorumlock:[^']*)'`)
	require.NoError(t, fs.WalkDir(files, "scripts", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			assert.Contains(t, keyKinds, m[1], "%s has a key that is the same for all names", path)
		}
		return err
	}))
	for _, key := range []string{wire.MarkerKey("ql"), wire.FencesKey("ql")} {
		assert.Equal(t, "ql", wire.HashTag(key))
	}
}

// All keys of a name with the hash tag lie in the slot of the marker.
func TestKeysOfASlot(t *testing.T) {
	for _, name := range []string{"{ql}:job", "{ql}:", "{ql}:a}b", "{ql}:{x}", "app:{ql}:job"} {
		pool := wire.PoolName(name)
		for _, base := range []string{name, pool, wire.SlotName(pool, 3)} {
			assert.False(t, strangers(&wire.Op{Names: []string{base}}, "ql"), base)
			for _, kind := range kinds {
				assert.Equal(t, "ql", wire.HashTag(wire.Key(kind, base)), base)
			}
		}
	}
	for _, name := range []string{"job", "{}{ql}", "{other}:{ql}", "{ql"} {
		assert.True(t, strangers(&wire.Op{Names: []string{name}}, "ql"), name)
	}
}
