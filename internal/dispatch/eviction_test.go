package dispatch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// evictor is a node that says by which settings its server may evict locks.
type evictor struct {
	*scripted
	settings string
}

func (e *evictor) Eviction() string { return e.settings }

// Each node reports evictions once. If they end and begin again, it reports them again.
func TestEvictionsAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, a := &events{}, &answers{}
		nd := &evictor{scripted: &scripted{}}
		n := newNodes(told, nd)
		defer n.Close()
		for _, step := range []struct {
			settings string
			news     []string
		}{
			{"", nil},
			{"lru", []string{"evicts scripted: lru"}},
			{"lru", nil},
			{"ttl", nil},
			{"", nil},
			{"ttl", []string{"evicts scripted: ttl"}},
		} {
			nd.settings, told.news = step.settings, nil
			require.NoError(t, n.senders[0].submit(ask(a, "x")))
			synctest.Wait()
			require.Equal(t, step.news, told.news)
		}
	})
}
