package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// story is a table and its two writers. They share only the nodes and the table, as processes on two machines would.
type story struct {
	out        io.Writer
	db         *sql.DB
	alice, bob *holder
}

func newStory(ctx context.Context, out io.Writer) (*story, error) {
	nodes, err := newNodes(ctx)
	if err != nil {
		return nil, err
	}
	alice, err := newHolder("alice", nodes, out)
	if err != nil {
		return nil, err
	}
	bob, err := newHolder("bob", nodes, out)
	if err != nil {
		return nil, err
	}
	db, err := openTable(ctx)
	if err != nil {
		return nil, err
	}
	return &story{out: out, db: db, alice: alice, bob: bob}, nil
}

// newNodes makes in-memory nodes, in place of servers, and opens them, as an operator does once with quorumlock init.
func newNodes(ctx context.Context) ([]node.Node, error) {
	var nodes []node.Node
	for _, name := range []string{"n1", "n2", "n3"} {
		nodes = append(nodes, memory.New(name, nil))
	}
	_, err := admin.Init(ctx, quorumlock.Config{Nodes: nodes})
	return nodes, err
}

func (s *story) close(ctx context.Context) {
	_ = s.alice.client.Close(context.WithoutCancel(ctx))
	_ = s.bob.client.Close(context.WithoutCancel(ctx))
	_ = s.db.Close()
}

// lateDeposit is a deposit by alice. She is paused between her read and her write until her lease has ended. Bob
// deposits meanwhile. It returns the error of alice's deposit.
func (s *story) lateDeposit(ctx context.Context, t table) error {
	var meanwhile error
	err := s.alice.deposit(ctx, t, 10, func(lease *quorumlock.Lease) {
		// A check of the lease would not help: the pause comes after it.
		s.alice.says("is paused; her lease has %v left", lease.Remaining().Round(100*time.Millisecond))
		<-lease.Context().Done()
		meanwhile = s.bob.deposit(ctx, t, 50, nil)
		s.alice.says("continues; her lease: %v", lease.Err())
	})
	if meanwhile != nil {
		return fmt.Errorf("bob: %w", meanwhile)
	}
	return err
}

// conclude compares the table's balance with the correct one.
func (s *story) conclude(ctx context.Context, want int, text string) error {
	row, err := readRow(ctx, s.db)
	if err != nil {
		return err
	}
	if row.balance != want {
		return fmt.Errorf("the balance is %d, want %d", row.balance, want)
	}
	fmt.Fprintf(s.out, "  The balance is %d: %s\n", row.balance, text)
	return nil
}

// holder is a client that acquires the lock.
type holder struct {
	name   string
	client *quorumlock.Client
	out    io.Writer
}

func newHolder(name string, nodes []node.Node, out io.Writer) (*holder, error) {
	client, err := quorumlock.New(quorumlock.Config{
		Nodes:  nodes,
		TTL:    time.Second,                   // The pause lasts as long.
		Logger: slog.New(slog.DiscardHandler), // The program itself reports the loss of alice's lease.
	})
	if err != nil {
		return nil, err
	}
	return &holder{name: name, client: client, out: out}, nil
}

// deposit adds to the balance under the lock. If pause is not nil, it is called between the read and the write.
func (h *holder) deposit(ctx context.Context, t table, amount int, pause func(*quorumlock.Lease)) error {
	// If a whole process is paused, its lease is not renewed. Here only its work is paused, so renewal is off.
	lease, err := h.client.RedLock(account).With(quorumlock.LockOptions{Fixed: true}).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }() // An error is expected if the lease has ended.
	h.says("has the lock, with token %d", lease.Token())

	balance, err := t.read(ctx, lease.Token())
	if err != nil {
		return err
	}
	h.says("reads %d", balance)
	if pause != nil {
		pause(lease)
	}
	balance += amount
	if err := t.write(ctx, lease.Token(), balance); err != nil {
		h.says("cannot write %d: %v", balance, err)
		return err
	}
	h.says("writes %d", balance)
	return nil
}

func (h *holder) says(format string, args ...any) {
	fmt.Fprintf(h.out, "  %-6s%s\n", h.name, fmt.Sprintf(format, args...))
}
