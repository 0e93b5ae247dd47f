// Command basic holds a lock while it works. Give it the addresses of an odd number of Redis servers, or none for
// three in-memory nodes.
//
// The operator of new servers runs "quorumlock init --nodes a,b,c" once. Otherwise they grant no locks during their
// first eleven seconds in use.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

func main() {
	// Ctrl-C ends the work, and the lock is released before the program ends.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addresses []string) error {
	cfg := configFor(addresses)
	if len(cfg.Nodes) > 0 { // In-memory nodes are new. For servers, an operator does this once, and not a program.
		if _, err := admin.Init(ctx, cfg); err != nil {
			return err
		}
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()

	return client.RedLock("nightly-report").Do(ctx, func(ctx context.Context) error {
		fmt.Println("working, as the only process")
		select {
		case <-time.After(time.Second): // the work
			fmt.Println("done")
			return nil
		case <-ctx.Done(): // The lock is lost, or the program was interrupted.
			return context.Cause(ctx)
		}
	})
}

// configFor uses in-memory nodes if there are no addresses. They exist only in this process, for a first look.
func configFor(addresses []string) quorumlock.Config {
	if len(addresses) > 0 {
		return quorumlock.Config{Addresses: addresses}
	}
	var nodes []node.Node
	for _, name := range []string{"n1", "n2", "n3"} {
		nodes = append(nodes, memory.New(name, nil))
	}
	return quorumlock.Config{Nodes: nodes}
}
