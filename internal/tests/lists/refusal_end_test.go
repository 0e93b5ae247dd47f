package lists_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/internal/fleet"
)

// A refusal ends when the other list is no longer in use, also for a client of one node.
func TestLoneClientIsServedOnceTheOtherListHasRunOut(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		fleet.AcquireAndRelease(t, f.Client().RedLock("job"))
		lone := f.Client(on(f, 1))
		_ = refused(t, lone.RedLock("job"))
		time.Sleep(time.Hour)
		fleet.AcquireAndRelease(t, lone.RedLock("job"))
	})
}

// A node that refused, and then went down for a time or for ever, keeps the client out no longer than the other list counts.
func TestRefusalByANodeThatIsDownRunsOut(t *testing.T) {
	for _, returns := range []bool{false, true} {
		t.Run(fmt.Sprint(returns), func(t *testing.T) {
			fleet.InVirtualTime(t, 5, func(t *testing.T, f *fleet.Fleet) {
				fleet.AcquireAndRelease(t, f.Client(on(f, 1, 2, 3)).RedLock("job"))
				second := f.Client()
				_ = refused(t, second.RedLock("job"))
				f.Stop(0)
				_ = refused(t, second.RedLock("job"))
				time.Sleep(time.Hour)
				if returns {
					f.Start(0)
				}
				fleet.AcquireAndRelease(t, second.RedLock("job"))
			})
		})
	}
}

// All were idle until the nodes forgot their ids. A new program with other names comes first, and the nodes get other ids.
func TestNewNamesAfterATimeWithoutUse(t *testing.T) {
	fleet.InVirtualTime(t, 3, func(t *testing.T, f *fleet.Fleet) {
		old := f.Client()
		fleet.AcquireAndRelease(t, old.RedLock("job"))
		time.Sleep(time.Hour)
		fleet.AcquireAndRelease(t, f.Client(func(cfg *quorumlock.Config) {
			for i, nd := range f.Nodes {
				cfg.Nodes[i] = &fleet.Wire{Node: nd, NodeName: fmt.Sprint("alias", i)}
			}
		}).RedLock("job"))
		fleet.AcquireAndRelease(t, old.RedLock("job"))
	})
}
