// Command fencing shows the purpose of a fencing token. A lock holder is paused for longer than its lease lasts, and
// then writes. A table that does not check tokens accepts the write, which destroys another holder's. A table that
// checks tokens refuses it. The program needs no server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/node/memory"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run fails on any unexpected result, above all if the table with tokens admits the late write.
func run(ctx context.Context, out io.Writer) error {
	s, err := newStory(ctx, out)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	fmt.Fprintln(out, "The account has 100. alice deposits 10, and bob deposits 50.")
	fmt.Fprintln(out, "\nWithout fencing tokens:")
	if err := s.lateDeposit(ctx, plainTable{s.db}); err != nil {
		return err
	}
	if err := s.conclude(ctx, 110, "bob's deposit is lost, and no error was returned."); err != nil {
		return err
	}

	fmt.Fprintln(out, "\nWith fencing tokens:")
	if err := s.reset(ctx); err != nil {
		return err
	}
	table := fencedTable{s.db}
	switch err := s.lateDeposit(ctx, table); {
	case err == nil:
		return errors.New("the table admitted a write with an old token")
	case !errors.Is(err, fence.ErrStale):
		return err
	}
	// The value that she read is out of date, so she starts again by acquiring the lock.
	if err := s.deposit(ctx, "alice", table, 10, nil); err != nil {
		return err
	}
	return s.conclude(ctx, 160, "both deposits are in it.")
}

// story is a table and its two writers, alice and bob. They share only the nodes and the table, as processes on two
// machines would.
type story struct {
	account
	out     io.Writer
	clients map[string]*quorumlock.Client
}

func newStory(ctx context.Context, out io.Writer) (*story, error) {
	cfg := quorumlock.Config{
		TTL:    time.Second,                   // The pause lasts as long.
		Logger: slog.New(slog.DiscardHandler), // The program itself reports the loss of alice's lease.
	}
	for _, name := range []string{"n1", "n2", "n3"} { // in memory, in place of servers
		cfg.Nodes = append(cfg.Nodes, memory.New(name, nil))
	}
	if _, err := admin.Init(ctx, cfg); err != nil { // as an operator does once with quorumlock init
		return nil, err
	}
	s := &story{out: out, clients: map[string]*quorumlock.Client{}}
	for _, name := range []string{"alice", "bob"} {
		client, err := quorumlock.New(cfg)
		if err != nil {
			return nil, err
		}
		s.clients[name] = client
	}
	var err error
	s.account, err = openAccount(ctx)
	return s, err
}

func (s *story) close(ctx context.Context) {
	for _, client := range s.clients {
		_ = client.Close(context.WithoutCancel(ctx))
	}
	_ = s.db.Close()
}

// lateDeposit is a deposit by alice. She is paused between her read and her write until her lease has ended. Bob
// deposits meanwhile. It returns the error of alice's deposit.
func (s *story) lateDeposit(ctx context.Context, t table) error {
	var meanwhile error
	err := s.deposit(ctx, "alice", t, 10, func(lease *quorumlock.Lease) {
		// A check of the lease would not help: the pause comes after it.
		s.says("alice", "is paused; her lease has %v left", lease.Remaining().Round(100*time.Millisecond))
		<-lease.Context().Done()
		meanwhile = s.deposit(ctx, "bob", t, 50, nil)
		s.says("alice", "continues; her lease: %v", lease.Err())
	})
	if meanwhile != nil {
		return fmt.Errorf("bob: %w", meanwhile)
	}
	return err
}

// deposit adds to the balance under the lock. If pause is not nil, it is called between the read and the write.
func (s *story) deposit(ctx context.Context, who string, t table, amount int, pause func(*quorumlock.Lease)) error {
	// If a whole process is paused, its lease is not renewed. Here only its work is paused, so renewal is off.
	lease, err := s.clients[who].RedLock(id).With(quorumlock.LockOptions{Fixed: true}).Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }() // An error is expected if the lease has ended.
	s.says(who, "has the lock, with token %d", lease.Token())

	balance, err := t.read(ctx, lease.Token())
	if err != nil {
		return err
	}
	s.says(who, "reads %d", balance)
	if pause != nil {
		pause(lease)
	}
	balance += amount
	if err := t.write(ctx, lease.Token(), balance); err != nil {
		s.says(who, "cannot write %d: %v", balance, err)
		return err
	}
	s.says(who, "writes %d", balance)
	return nil
}

func (s *story) says(who, format string, args ...any) {
	fmt.Fprintf(s.out, "  %-6s%s\n", who, fmt.Sprintf(format, args...))
}

// conclude compares the table's balance with the correct one.
func (s *story) conclude(ctx context.Context, want int, text string) error {
	balance, err := s.stored(ctx)
	if err == nil && balance != want {
		err = fmt.Errorf("the balance is %d, want %d", balance, want)
	}
	fmt.Fprintf(s.out, "  The balance is %d: %s\n", balance, text)
	return err
}
