package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
)

func wrongUsage(c *cobra.Command, err error) error {
	return &exit.Usage{Command: c.CommandPath(), Err: err}
}

func wrongFlag(c *cobra.Command, format string, args ...any) error {
	return wrongUsage(c, fmt.Errorf(format, args...))
}

// arguments reports a failed check of positional arguments as wrong usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return wrongUsage(c, err)
		}
		return nil
	}
}

func named(_ *cobra.Command, keys []string) error {
	if len(keys) == 0 {
		return errors.New("no KEY: the lock needs a name")
	}
	return nil
}

// positive refuses a given time that is not positive. A zero would silently mean the default.
func positive(c *cobra.Command, flag string, d time.Duration) error {
	if c.Flags().Changed(flag) && d <= 0 {
		return wrongFlag(c, "--%s %v is not positive", flag, d)
	}
	return nil
}
