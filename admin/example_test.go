package admin_test

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node/memory"
)

// Tests open in-memory nodes with Init. Operators open real servers once, with "quorumlock init".
func ExampleInit() {
	ctx := context.Background()
	var cfg quorumlock.Config
	for i := range 3 {
		cfg.Nodes = append(cfg.Nodes, memory.New(fmt.Sprintf("n%d", i+1), nil))
	}
	for range 2 {
		report, err := admin.Init(ctx, cfg)
		for _, n := range report {
			fmt.Print(n.Node, " ", n.State, ", ")
		}
		fmt.Println("error:", err)
	}
	// Output:
	// n1 opened, n2 opened, n3 opened, error: <nil>
	// n1 open, n2 open, n3 open, error: <nil>
}
