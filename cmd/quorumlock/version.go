package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.nodes.refuse(c); err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, version())
			return nil
		},
	}
}

// version is what the build knows of itself: a release's number where it was installed
// as one, otherwise one made from the commit.
func version() string {
	number := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		number = info.Main.Version
	}
	return fmt.Sprintf("quorumlock %s %s %s/%s", number, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
