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
	"os"
	"os/signal"

	"github.com/quorumlock/quorumlock/fence"
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
	fmt.Fprintln(out, "The account has 100. alice deposits 10, and bob deposits 50.")
	fmt.Fprintln(out, "\nWithout fencing tokens:")
	if err := withoutToken(ctx, out); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nWith fencing tokens:")
	return withToken(ctx, out)
}

func withoutToken(ctx context.Context, out io.Writer) error {
	s, err := newStory(ctx, out)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	table := plainTable{s.db}
	if err := s.lateDeposit(ctx, table); err != nil {
		return err
	}
	return s.conclude(ctx, 110, "bob's deposit is lost, and no error was returned.")
}

func withToken(ctx context.Context, out io.Writer) error {
	s, err := newStory(ctx, out)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	table := fencedTable{s.db}
	switch err := s.lateDeposit(ctx, table); {
	case err == nil:
		return errors.New("the table admitted a write with an old token")
	case !errors.Is(err, fence.ErrStale):
		return err
	}
	// The value that she read is out of date, so she starts again by acquiring the lock.
	if err := s.alice.deposit(ctx, table, 10, nil); err != nil {
		return err
	}
	return s.conclude(ctx, 160, "both deposits are in it.")
}
