package quorumlock

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/node"
)

// following is a subscription that only knows what it follows.
type following struct{ names map[string]bool }

func (f *following) Follow(name string) error { f.names[name] = true; return nil }
func (f *following) Unfollow(name string)     { delete(f.names, name) }
func (*following) Close() error               { return nil }

// A subscription that takes the place of another between two names that the other followed is
// given the names that are wanted, too.
func TestASubscriptionInPlaceOfAnotherFollowsWhatIsWanted(t *testing.T) {
	inside(t, 3, func(t *testing.T, c *Client, _ []*node.Memory) {
		b := &c.inboxes
		former, next := &following{map[string]bool{"a": true}}, &following{map[string]bool{}}
		b.mu.Lock()
		box := &b.boxes[0]
		box.sub, box.follows, box.aligning = former, map[string]bool{"a": true}, true // between two names
		b.wanted["a"], b.wanted["b"] = 1, 1
		box.sub, box.follows = next, map[string]bool{}
		b.align(0)
		b.mu.Unlock()

		require.False(t, b.alignOne(0, former), "it has nothing more to do for the former")
		synctest.Wait()
		require.Equal(t, map[string]bool{"a": true, "b": true}, next.names)
		require.Equal(t, map[string]bool{"a": true}, former.names)
		b.mu.Lock()
		box.sub, box.follows, b.wanted = nil, nil, map[string]int{}
		b.mu.Unlock()
	})
}
