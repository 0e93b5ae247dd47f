package quorumlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock"
)

func ExampleClient_RWLock() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	rw := client.RWLock("catalogue")
	first, _ := rw.Read().Acquire(ctx)
	second, _ := rw.Read().Acquire(ctx)
	_, err := rw.Write().TryAcquire(ctx)
	fmt.Println("two readers exclude a writer:", errors.Is(err, quorumlock.ErrHeld))

	_ = first.Release(ctx)
	_ = second.Release(ctx)
	writer, _ := rw.Write().Acquire(ctx)
	_, err = rw.Read().TryAcquire(ctx)
	fmt.Println("a writer excludes readers:", errors.Is(err, quorumlock.ErrHeld))
	fmt.Println("error:", writer.Release(ctx))
	// Output:
	// two readers exclude a writer: true
	// a writer excludes readers: true
	// error: <nil>
}

func ExampleLease_Downgrade() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	rw := client.RWLock("catalogue")
	lease, err := rw.Write().Acquire(ctx)
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()
	// Write, and then go on to read the written data: no other client can write in between.
	if err := lease.Downgrade(ctx); err != nil {
		fmt.Println("other readers may have to wait:", err)
	}
	other, err := rw.Read().Acquire(ctx)
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	fmt.Println("both read under the same token:", other.Token() == lease.Token())
	fmt.Println(other.Release(ctx))
	// Output:
	// both read under the same token: true
	// <nil>
}

func ExampleRWLock_Write() {
	ctx := context.Background()
	client := exampleClient()
	defer func() { _ = client.Close(ctx) }()

	rw := client.RWLock("catalogue")
	err := rw.Read().Do(ctx, func(ctx context.Context) error {
		return rw.Write().Do(ctx, func(context.Context) error { return nil })
	})
	fmt.Println("a reader that asks to write would wait for itself:", errors.Is(err, quorumlock.ErrOverlap))
	// Output:
	// a reader that asks to write would wait for itself: true
}
