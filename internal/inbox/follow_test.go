package inbox

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// following is a subscription that only keeps its names.
type following struct{ names map[string]bool }

func (f *following) Follow(name string) error { f.names[name] = true; return nil }
func (f *following) Unfollow(name string)     { delete(f.names, name) }
func (*following) Close() error               { return nil }

// A subscription may be replaced while a task is between two names of it. The task ends, and the
// new subscription gets all wanted names.
func TestReplacedSubscriptionFollowsPresentNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(clock.Process(), []node.Node{memory.New("n1", clock.Process())}, "c", true, &events{})
		former, next := &following{map[string]bool{"a": true}}, &following{map[string]bool{}}
		s.mu.Lock()
		sub := &s.subscriptions[0]
		sub.inbox, sub.following, sub.aligning = former, map[string]bool{"a": true}, true
		s.wanted["a"], s.wanted["b"] = 1, 1
		sub.inbox, sub.following = next, map[string]bool{}
		s.alignLocked(0)
		s.mu.Unlock()

		require.False(t, s.alignOne(0, former), "the task of the former has nothing more to do")
		synctest.Wait()
		require.Equal(t, map[string]bool{"a": true, "b": true}, next.names)
		require.Equal(t, map[string]bool{"a": true}, former.names)
		s.Close()
	})
}
