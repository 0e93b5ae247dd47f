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

// release is the version where the build cannot know it: of a source without its repository,
//
//	go build -ldflags "-X main.release=v1.2.3" ./cmd/quorumlock
var release string

// version is the number and what the command was built with.
func version() string {
	return fmt.Sprintf("quorumlock %s %s %s/%s", number(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// number is what the build was told, or else knows of itself: a release's number where it was
// installed as one, otherwise one made from the commit.
func number() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
