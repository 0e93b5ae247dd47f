package quorumlock_test

import (
	"context"
	"fmt"

	"github.com/quorumlock/quorumlock"
)

// One process takes the lock, and another one goes on with it and unlocks.
func ExampleLock_Resume() {
	ctx := context.Background()
	_, cfg := exampleNodes(quorumlock.DefaultTTL)
	handler, worker := openExample(cfg), openExample(cfg)
	defer func() { _ = worker.Close(ctx) }()

	// A handler of HTTP requests locks, and leaves the lock to its TTL.
	fixed := quorumlock.LockOptions{Fixed: true}
	lease, err := handler.RedLock("invoice:7").With(fixed).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	owner, token := lease.Owner(), lease.Token() // the task carries them
	_ = lease.Detach()
	_ = handler.Close(ctx)

	// The worker takes the lease over, and unlocks at the end of its work.
	resumed, err := worker.RedLock("invoice:7").With(fixed).Resume(ctx, owner, token)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the same token:", resumed.Token() == token)
	fmt.Println("released:", resumed.Release(ctx))
	// Output:
	// the same token: true
	// released: <nil>
}
