package quorumlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock"
)

func ExampleClient_Semaphore() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	exports := client.Semaphore("exports", 3) // all programs together run three at a time
	err := exports.Do(ctx, 1, func(ctx context.Context) error {
		fmt.Println("at most two others are here, and ctx ends if that changes:", ctx.Err() == nil)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// at most two others are here, and ctx ends if that changes: true
	// error: <nil>
}

func ExampleSemaphore_Acquire() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	gpus := client.Semaphore("gpus", 4)
	lease, err := gpus.Acquire(ctx, 4) // all or none
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	fmt.Println("mine alone:", lease.Slots())

	_, err = gpus.TryAcquire(ctx, 1)
	fmt.Println("full:", errors.Is(err, quorumlock.ErrHeld))
	_ = lease.Release(ctx)
	// Output:
	// mine alone: [0 1 2 3]
	// full: true
}

func ExampleSemaphore_SetPermits() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	workers := client.Semaphore("workers", 2)
	if err := workers.SetPermits(ctx, 8); err != nil { // for all programs, from now on
		fmt.Println("no quorum:", err)
		return
	}
	status, err := workers.Inspect(ctx)
	if err != nil {
		fmt.Println("no quorum:", err)
		return
	}
	fmt.Println(status.Available())
	// Output: 8
}
