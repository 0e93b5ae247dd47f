package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the version of a build that cannot know it, from a source without its repository:
//
//	go build -ldflags "-X main.release=v1.2.3" ./cmd/quorumlock
var release string

// version returns the version number and the toolchain of the build.
func version() string {
	return fmt.Sprintf("quorumlock %s %s %s/%s", number(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// number returns the number set at build time, or else the module's version: a release's number if it was installed
// as one, otherwise a pseudo-version of the commit.
func number() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
