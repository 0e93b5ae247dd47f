package faultinject_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// A service stops its work in time when the lock can no longer be renewed.
func Example() {
	var faulty []*faultinject.Node
	cfg := quorumlock.Config{TTL: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	for i := range 5 {
		n := faultinject.Wrap(memory.New(fmt.Sprintf("n%d", i+1), nil))
		defer func() { _ = n.Close() }()
		faulty = append(faulty, n)
		cfg.Nodes = append(cfg.Nodes, n)
	}
	ctx := context.Background()
	if _, err := admin.Init(ctx, cfg); err != nil {
		log.Fatal(err)
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()

	// Three nodes of five run renewals, and their answers get lost: all, until the nodes are
	// healed. If only one got lost, the lease would not: renewals are tried again.
	for _, n := range faulty[:3] {
		n.Set(faultinject.Only(faultinject.FailAfter(node.ErrUnreachable), faultinject.Renew))
	}
	err = client.RedLock("nightly-report").Do(ctx, func(ctx context.Context) error {
		<-ctx.Done() // the work of the service
		fmt.Println("stopped:", errors.Is(context.Cause(ctx), quorumlock.ErrLost))
		return context.Cause(ctx)
	})
	fmt.Println("lost:", errors.Is(err, quorumlock.ErrLost))

	for _, n := range faulty {
		n.Heal()
	}
	err = client.RedLock("nightly-report").Do(ctx, func(context.Context) error { return nil })
	fmt.Println("after that:", err)
	// Output:
	// stopped: true
	// lost: true
	// after that: <nil>
}

// An effect that waits for the test puts events in an order that is otherwise left to chance.
func ExampleEffect() {
	ctx := context.Background()
	arrived, pass := make(chan []string), make(chan struct{})
	n := faultinject.Wrap(memory.New("n1", nil))
	defer func() { _ = n.Close() }()
	n.Set(faultinject.Only(func(ctx context.Context, x *faultinject.Exchange) {
		arrived <- x.Ops[0].Names
		<-pass
		x.Run(ctx)
	}, faultinject.Inspect))

	client, err := quorumlock.New(quorumlock.Config{Nodes: []node.Node{n}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()
	answer := make(chan *quorumlock.Status)
	go func() {
		status, _ := client.RedLock("invoices").Inspect(ctx)
		answer <- status
	}()
	fmt.Println("held:", <-arrived)
	close(pass)
	fmt.Println("free:", len((<-answer).Owners()) == 0)
	// Output:
	// held: [invoices]
	// free: true
}
