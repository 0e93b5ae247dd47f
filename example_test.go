package quorumlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// exampleClient is a client on five in-memory nodes; with real servers, set Addresses.
func exampleClient() *quorumlock.Client {
	var nodes []node.Node
	for i := range 5 {
		nodes = append(nodes, memory.New(fmt.Sprintf("n%d", i+1), nil))
	}
	cfg := quorumlock.Config{Nodes: nodes}
	if _, err := admin.Init(context.Background(), cfg); err != nil { // once, by the operator who sets the nodes up
		log.Fatal(err)
	}
	client, err := quorumlock.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func Example() {
	ctx := context.Background()
	client := exampleClient() // or quorumlock.New(quorumlock.Config{Addresses: ...})
	defer func() { _ = client.Close(ctx) }()

	err := client.RedLock("nightly-report").Do(ctx, func(ctx context.Context) error {
		fmt.Println("this client has the lock, and ctx ends with the lease:", ctx.Err() == nil)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// this client has the lock, and ctx ends with the lease: true
	// error: <nil>
}

func ExampleLock_Acquire() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	patience, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lease, err := client.RedLock("invoices").Acquire(patience)
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()

	fmt.Println("held:", lease.Err() == nil)
	fmt.Println("for at least nine seconds without renewal:", lease.Remaining() > 9*time.Second)
	// Output:
	// held: true
	// for at least nine seconds without renewal: true
}

func ExampleLock_TryAcquire() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	lease, _ := client.RedLock("invoices").TryAcquire(ctx)
	_, err := client.RedLock("invoices").TryAcquire(ctx)
	var held *quorumlock.HeldError
	fmt.Println(errors.As(err, &held), held.Owner == lease.Owner())
	fmt.Println(lease.Release(ctx))
	// Output:
	// true true
	// <nil>
}

func ExampleClient_MultiLock() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	// Both accounts or none, in one round trip, on every node.
	lease, err := client.MultiLock("account-7", "account-12").Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Names())
	fmt.Println(lease.Release(ctx))
	// Output:
	// [account-12 account-7]
	// <nil>
}

func ExampleLock_With() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	// Two seconds, never renewed: for work that must not take longer.
	brief := client.RedLock("cache-refill").With(quorumlock.LockOptions{TTL: 2 * time.Second, Fixed: true})
	lease, err := brief.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lease.Context().Done()
	fmt.Println(errors.Is(context.Cause(lease.Context()), quorumlock.ErrLost))
	// Output: true
}

func ExampleLease_Context() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	lock := client.RedLock("tree")
	outer, _ := lock.Acquire(ctx)
	// The context says that the lock is held already: this does not wait for itself.
	inner, err := lock.Acquire(outer.Context())
	fmt.Println(err, inner.Owner() == outer.Owner())
	_ = inner.Release(ctx)
	fmt.Println("still held:", outer.Err() == nil)
	_ = outer.Release(ctx)
	// Output:
	// <nil> true
	// still held: true
}

func ExampleLock_Inspect() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	lease, _ := client.RedLock("invoices").Acquire(ctx)
	defer func() { _ = lease.Release(ctx) }()
	status, err := client.RedLock("invoices").Inspect(ctx)
	fmt.Println(err, status.Holder() == lease.Owner(), len(status.Nodes))
	// Output: <nil> true 5
}

func ExampleJoin() {
	ctx := context.Background()
	client, other := exampleClient(), exampleClient() // on two sets of nodes
	defer func() { _ = client.Close(ctx) }()
	defer func() { _ = other.Close(ctx) }()

	err := quorumlock.Join(client.RedLock("stock"), other.RedLock("ledger")).Do(ctx, func(context.Context) error {
		fmt.Println("both are held, or neither")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// both are held, or neither
	// error: <nil>
}

func ExampleClient_Latch() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	latch := client.Latch("import-42")
	if err := latch.Set(ctx, 3); err != nil { // any client may set it, with the same number
		fmt.Println(err)
		return
	}
	for _, part := range []string{"customers", "orders", "invoices"} {
		go func() { // in another process, say; with the same id, once more does no harm
			_ = client.Latch("import-42").CountDown(ctx, part)
		}()
	}
	if err := latch.Await(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all parts are in")
	fmt.Println("error:", latch.Delete(ctx))
	// Output:
	// all parts are in
	// error: <nil>
}

func ExampleClient_Once() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	report := func(context.Context) error {
		fmt.Println("the report is sent")
		return nil
	}
	for range 3 { // all machines, at about the same time
		err := client.Once("daily report", quorumlock.OnceOptions{Window: 12 * time.Hour}).Do(ctx, report)
		var done *quorumlock.DoneError
		if errors.As(err, &done) {
			fmt.Println("done by another:", done.Name)
		}
	}
	// Output:
	// the report is sent
	// done by another: daily report
	// done by another: daily report
}
