// Package doctor examines a set of nodes, and reports problems and remedies.
//
// It has two halves. [Examine] collects [Facts] of all nodes, and changes nothing on them. [Facts.Report] is a pure
// function: a table of small checks turns facts into findings. An unknown fact makes a finding of its own, and never
// an OK.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Config says what to examine, and how the programs that use the nodes are configured.
type Config struct {
	// Nodes are the options of the programs' connections to the nodes.
	Nodes []node.Options
	// AllowEven is the programs' setting.
	AllowEven bool
	// Limits are the programs' limits.
	Limits node.Limits
	// Timeout is the longest time that the programs wait for one node (NodeTimeoutMax).
	Timeout time.Duration
	// Names are names of locks, for which the user's rights are checked.
	Names []string
	// Patience is the timeout of one answer here.
	Patience time.Duration
}

// Examine asks all nodes at once for all facts. If a node does not answer, the facts say why, so there is no error.
// Examine writes nothing: neither a key nor a setting.
func Examine(ctx context.Context, cfg Config) *Facts {
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
