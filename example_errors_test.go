package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// A lock is held, and the error says by whom. errors.Is(err, quorumlock.ErrHeld) is enough if that does not matter.
func ExampleHeldError() {
	ctx := context.Background()
	_, cfg := exampleNodes(0)
	cfg.Holder = "web-1"
	client := openExample(cfg)
	defer func() { _ = client.Close(ctx) }()

	lock := client.RedLock("invoices").With(quorumlock.LockOptions{Purpose: "nightly run"})
	lease, _ := lock.Acquire(ctx)
	defer func() { _ = lease.Release(ctx) }()
	_, err := lock.TryAcquire(ctx)
	var held *quorumlock.HeldError
	if errors.As(err, &held) {
		who := quorumlock.ParseOwner(held.Owner)
		fmt.Printf("%s is held by %s for the %s\n", held.Name, who.Holder, who.Purpose)
	}
	// Output: invoices is held by web-1 for the nightly run
}

// Too few nodes answer, and the error names them.
func ExampleNoQuorumError() {
	ctx := context.Background()
	nodes, cfg := exampleNodes(0)
	client := openExample(cfg)
	defer func() { _ = client.Close(ctx) }()

	nodes[0].Stop()
	nodes[2].Stop()
	_, err := client.RedLock("invoices").TryAcquire(ctx)
	var few *quorumlock.NoQuorumError
	if errors.As(err, &few) {
		fmt.Println(few.Need, "of", few.Total, "nodes are needed")
		for _, n := range few.Nodes {
			fmt.Println(n.Node, "is unreachable:", errors.Is(n.Err, node.ErrUnreachable))
		}
	}
	// Unordered output:
	// 2 of 3 nodes are needed
	// n1 is unreachable: true
	// n3 is unreachable: true
}

// A lease ends early, and the error says why. It is also the cause of the lease's context.
func ExampleLostError() {
	ctx := context.Background()
	nodes, cfg := exampleNodes(300 * time.Millisecond)
	client := openExample(cfg)
	defer func() { _ = client.Close(ctx) }()

	lease, err := client.RedLock("invoices").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range nodes {
		n.Stop()
	}
	<-lease.Context().Done() // before the nodes can grant the lock to another client
	var lost *quorumlock.LostError
	if errors.As(context.Cause(lease.Context()), &lost) {
		fmt.Println(lost.Names, lost.Cause)
	}
	// Output: [invoices] unconfirmed
}

// A fixed lease lasts as long as the program extends it.
func ExampleLease_Extend() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	lock := client.RedLock("import").With(quorumlock.LockOptions{TTL: 5 * time.Second, Fixed: true})
	lease, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for part := range 3 {
		fmt.Println("part", part+1)
		if err := lease.Extend(ctx); err != nil { // five seconds for the next part
			fmt.Println(err)
			return
		}
	}
	fmt.Println("error:", lease.Release(ctx))
	// Output:
	// part 1
	// part 2
	// part 3
	// error: <nil>
}

// An operator takes a lock from a holder that is known to be dead. If it is not, two holders may be at work until the
// next renewal of the former one, or until a message reaches its client.
func ExampleLock_ForceRelease() {
	ctx := context.Background()
	_, cfg := exampleNodes(300 * time.Millisecond)
	program, operator := openExample(cfg), openExample(cfg)
	defer func() { _ = program.Close(ctx) }()
	defer func() { _ = operator.Close(ctx) }()

	lease, err := program.RedLock("invoices").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	status, err := operator.RedLock("invoices").ForceRelease(ctx)
	fmt.Println("removed:", err == nil && status.Holder() == lease.Owner())

	<-lease.Context().Done()
	fmt.Println("the former holder knows:", errors.Is(lease.Err(), quorumlock.ErrLost))
	// Output:
	// removed: true
	// the former holder knows: true
}

func ExampleClient_Ready() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	http.HandleFunc("/ready", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if err := client.Ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // it names each node that is not ready
		}
	})
	fmt.Println(client.Ready(ctx))
	// Output: <nil>
}

// A monitor warns of locks that have been held for over a minute.
func ExampleClient_Locks() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()
	lease, err := client.RedLock("jobs:report").Acquire(ctx)
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()

	for l, err := range client.Locks(ctx, "jobs:*") {
		if err != nil {
			fmt.Println("not all nodes answer:", err)
			break
		}
		first := l.Holders[0]
		long := !first.Since.IsZero() && time.Since(first.Since) > time.Minute
		fmt.Println(l.Name, "is held by this lease:", first.Owner == lease.Owner(), "over a minute:", long)
	}
	// Output: jobs:report is held by this lease: true over a minute: false
}
