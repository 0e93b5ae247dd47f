package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/node/memory"
)

// exampleClient is a client on three in-memory nodes; with real servers, set Addresses.
func exampleClient() *quorumlock.Client {
	var cfg quorumlock.Config
	for i := range 3 {
		cfg.Nodes = append(cfg.Nodes, memory.New(fmt.Sprintf("n%d", i+1), nil))
	}
	if _, err := admin.Init(context.Background(), cfg); err != nil { // An operator does this once.
		log.Fatal(err)
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func ExampleRun() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client := exampleClient()
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()

	err := election.Run(ctx, client, "scheduler", func(ctx context.Context, term election.Term) error {
		fmt.Println("elected, with a fencing token:", term.Token > 0)
		<-ctx.Done() // Work until the lead is lost, or the program ends.
		return nil
	})
	fmt.Println(err)
	// Output:
	// elected, with a fencing token: true
	// context deadline exceeded
}

func ExampleElection_Resign() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	candidate := election.New(client, "scheduler", election.Config{Name: "web-1"})
	err := candidate.Run(ctx, func(ctx context.Context, term election.Term) error {
		go candidate.Resign() // A signal handler or an HTTP handler may call it.
		<-ctx.Done()
		fmt.Println(term.Name, "has resigned:", errors.Is(context.Cause(ctx), election.ErrResigned))
		return election.ErrDone // With nil, the candidate would stand again.
	})
	fmt.Println(err)
	// Output:
	// web-1 has resigned: true
	// <nil>
}

func ExampleElection_Watch() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	observer := election.New(client, "scheduler", election.Config{Interval: 10 * time.Millisecond})
	candidate, seen := make(chan error, 1), make(chan struct{})
	for leader, err := range observer.Watch(ctx) {
		switch {
		case errors.Is(err, election.ErrNoLeader):
			fmt.Println("no leader")
			go func() {
				e := election.New(client, "scheduler", election.Config{Name: "web-1 http://10.0.0.3:8080"})
				candidate <- e.Run(ctx, func(context.Context, election.Term) error {
					<-seen // The work takes as long: an observer may miss a short term.
					return election.ErrDone
				})
			}()
			continue
		case err != nil:
			fmt.Println("the leader is unknown:", err)
			continue
		}
		fmt.Println("leader:", leader.Name, leader.Token > 0, !leader.Since.IsZero())
		close(seen)
		break
	}
	fmt.Println(<-candidate)
	// Output:
	// no leader
	// leader: web-1 http://10.0.0.3:8080 true true
	// <nil>
}
