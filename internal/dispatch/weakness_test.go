package dispatch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// weak is a node that says which losses of its server go unnoticed.
type weak struct {
	*scripted
	settings, unseen string
}

func (w *weak) Eviction() string { return w.settings }

func (w *weak) Unseen() string { return w.unseen }

// Each node reports each weakness once. If it ends and begins again, the node reports it again.
func TestWeaknessIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, a := &events{}, &answers{}
		nd := &weak{scripted: &scripted{}}
		n := newNodes(told, nd)
		defer n.Close()
		for _, step := range []struct {
			settings, unseen string
			news             []string
		}{
			{"", "", nil},
			{"lru", "", []string{"evicts scripted: lru"}},
			{"lru", "no INFO", []string{"unseen scripted: no INFO"}},
			{"ttl", "no INFO", nil},
			{"", "", nil},
			{"ttl", "no id", []string{"evicts scripted: ttl", "unseen scripted: no id"}},
		} {
			nd.settings, nd.unseen, told.news = step.settings, step.unseen, nil
			require.NoError(t, n.senders[0].submit(ask(a, "x")))
			synctest.Wait()
			require.Equal(t, step.news, told.news)
		}
	})
}
