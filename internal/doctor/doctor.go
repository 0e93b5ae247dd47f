// Package doctor looks at a set of nodes, and says what is wrong with it and what to do.
//
// It has two halves. The one asks: [Examine] collects [Facts] of all nodes, and changes nothing on
// them. The other judges: [Facts.Report] is a pure function, a table of small checks that turn facts
// into findings. A fact that could not be learnt makes a finding of its own, and never an OK.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/node"
)

// Config says what to look at, and what the programs that use it are configured with.
type Config struct {
	// Nodes are the options with which the programs connect to each node.
	Nodes []rueidis.ClientOption
	// AllowEven is as the programs have it.
	AllowEven bool
	// Limits are those of the programs.
	Limits node.Limits
	// Timeout is how long the programs wait for one node at most (NodeTimeoutMax).
	Timeout time.Duration
	// Names are names of locks, for which the user's rights are checked.
	Names []string
	// Patience is how long one answer is waited for here.
	Patience time.Duration
	// Clock is the source of time; nil for that of the system.
	Clock clock.Clock
}

// Examine asks all nodes at once for what there is to know of them. What they do not answer, and why,
// is part of the facts; so there is no error. It writes nothing: neither a key nor a setting.
func Examine(ctx context.Context, cfg Config) *Facts {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	f := &Facts{
		Nodes:     make([]Node, len(cfg.Nodes)),
		AllowEven: cfg.AllowEven, Limits: cfg.Limits, Timeout: cfg.Timeout, Names: cfg.Names,
	}
	var wg sync.WaitGroup
	for i, opt := range cfg.Nodes {
		wg.Go(func() { f.Nodes[i] = examine(ctx, opt, &cfg) })
	}
	wg.Wait()
	return f
}
