package nodetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// announcing makes a release tell Redisson's clients.
func announcing(op node.Op) node.Op {
	op.Announce = true
	return op
}

// follows opens an inbox that follows locks. It skips the test if the node cannot.
func (x *trial) follows(client string, names ...string) (*box, node.Follower) {
	x.Helper()
	b := x.listen(client)
	f, ok := b.Inbox.(node.Follower)
	if !ok {
		x.Skip("this node lets no client follow a lock")
	}
	for _, name := range names {
		require.NoError(x, f.Follow(name))
	}
	return b, f
}

// followed has the promises about locks that are shared with Redisson's clients.
var followed = []promise{
	{"a follower of a lock is told of its release", func(x *trial) {
		b, _ := x.follows("c", "a")
		x.held("a")
		b.receives()
		x.want(node.Released, announcing(release("o1", "a")))
		b.receives(announced("a"))
	}},
	{"also of a release with a rest", func(x *trial) {
		b, _ := x.follows("c", "a", "b")
		x.held("a")
		x.want(node.Released, shorten("a"), announcing(shorten("a", "b")))
		b.receives(announced("a"))
	}},
	{"also by force", func(x *trial) {
		b, _ := x.follows("c", "a", "b")
		x.held("a")
		x.want(node.Released, announcing(burying(force(long, "b", "a"), "o2")))
		b.receives(announced("a"))
		x.denied(renew("o2", long, "b"), "b", "")
		x.denied(renew("o1", long, "a"), "a", "")
		x.want(node.Absent, announcing(force(long, "a")))
		b.receives()
	}},
	{"a release without effect or without Announce is not announced", func(x *trial) {
		b, _ := x.follows("c", "a", "b", "d")
		x.held("a", "b")
		x.want(node.Granted, acquire("o2", long, "d"))
		x.want(node.Released, release("o1", "b"))
		x.want(node.Absent, announcing(release("o1", "b", "d")), announcing(leave("c:1", "a")))
		x.want(node.Released, force(long, "d"))
		b.receives()
		x.want(node.Released, announcing(release("o1", "a", "b", "d")))
		b.receives(announced("a"))
	}},
	{"only followers of a lock are told of it", func(x *trial) {
		first, _ := x.follows("c", "a")
		second, _ := x.follows("c", "a", "b")
		other, _ := x.follows("d")
		x.held("a", "b", "d")
		x.want(node.Released, announcing(release("o1", "a", "b", "d")))
		first.receives(announced("a"))
		assert.Equal(x, announced("a"), second.next())
		assert.Equal(x, announced("b"), second.next())
		other.receives()
	}},
	{"to follow a lock twice is to follow it once", func(x *trial) {
		b, f := x.follows("c", "a", "a")
		x.held("a")
		x.want(node.Released, announcing(release("o1", "a")))
		b.receives(announced("a"))
		f.Unfollow("a")
		f.Unfollow("a")
		f.Unfollow("b")
		x.held("a")
		x.want(node.Released, announcing(release("o1", "a")))
		require.NoError(x, f.Follow("b"))
		b.receives()
		require.NoError(x, f.Follow("a"))
		x.held("a")
		x.want(node.Released, announcing(release("o1", "a")))
		b.receives(announced("a"))
	}},
	{"waiters are woken besides", func(x *trial) {
		b, _ := x.follows("c", "a")
		x.line("a", "c:1", "c:2")
		x.want(node.Released, announcing(release("o1", "a")))
		b.receives(announced("a"), woken("c:1", "a"), standby("c:2", "a"))
		x.held("a")
		x.want(node.Released, waiting("c:1", 1, announcing(release("o1", "a"))))
		b.receives(announced("a"), returned("c:2", "a"))
		x.held("a")
		x.queues("c:1", 1, 0, "a") // It has come, so it is not taken for a frozen one, however late this is.
		x.want(node.Released, announcing(force(long, "a")))
		b.receives(announced("a"), woken("c:1", "a"), standby("c:2", "a"))
	}},
	{"a name may hold any bytes", func(x *trial) {
		for _, name := range odd {
			b, f := x.follows("c", name)
			x.held(name)
			x.want(node.Released, announcing(release("o1", name)))
			b.receives(announced(name))
			f.Unfollow(name)
			require.NoError(x, b.Close())
		}
	}},
	{"names with the same channel are both announced, until neither is followed", func(x *trial) {
		b, f := x.follows("c", "a", "{a}", "{{a}}", "a}")
		x.held("{a}", "x{a}")
		x.want(node.Released, announcing(release("o1", "{a}", "x{a}")))
		b.receives(announced("a"), announced("{a}"))
		f.Unfollow("a")
		x.held("a")
		x.want(node.Released, announcing(release("o1", "a")))
		b.receives(announced("{a}"))
		f.Unfollow("{a}")
		x.held("a", "{{a}}", "a}")
		x.want(node.Released, announcing(release("o1", "a", "{{a}}", "a}")))
		b.receives(announced("{{a}}"), announced("a}"))
	}},
	{"many follow and end that at once", func(x *trial) {
		b, f := x.follows("c")
		names := make([]string, 10)
		var wg sync.WaitGroup
		for i := range names {
			names[i] = fmt.Sprint("n", i)
			for range 3 {
				wg.Go(func() {
					for range 20 {
						if err := f.Follow(names[i]); err != nil {
							x.Error(err)
						}
						f.Unfollow(names[i])
					}
				})
			}
		}
		wg.Wait()
		var want []node.Message
		for _, name := range names {
			require.NoError(x, f.Follow(name))
			want = append(want, announced(name))
		}
		x.held(names...)
		x.want(node.Released, announcing(release("o1", names...)))
		b.receives(want...)
	}},
	{"a closed inbox follows nothing", func(x *trial) {
		b, f := x.follows("c", "a")
		require.NoError(x, b.Close())
		x.probeFailed(node.ErrClosed, f.Follow("b"))
		x.probeFailed(node.ErrClosed, f.Follow("a"))
		f.Unfollow("a")
		f.Unfollow("b")
		x.held("a")
		x.want(node.Released, announcing(release("o1", "a")))
		assert.Empty(x, b.messages)
	}},
}
