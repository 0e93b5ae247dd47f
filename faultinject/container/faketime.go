package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// sharedDir is the container's directory for configuration, clock and libfaketime, which this program writes.
const sharedDir = "/faultinject"

const (
	libraryName = "libfaketime.so"
	clockName   = "clock"
)

// faketime says whether and how clocks can be stepped.
type faketime struct {
	library string // here; empty where they cannot
	why     string // why clocks cannot be stepped
}

// findFaketime looks for a libfaketime that fits the image. The image made here always fits. Others are tested,
// because they may have another C library, or be for another machine.
func findFaketime(ctx context.Context, img image, trueClock bool) (faketime, error) {
	if trueClock {
		return faketime{why: "the server was started with the true clock"}, nil
	}
	library, err := redisproc.FindFaketime()
	if err != nil {
		return faketime{why: err.Error()}, nil
	}
	if img.made {
		return faketime{library: library}, nil
	}
	return try(ctx, img, library)
}

// try runs the image's server under the library and asks for its version. A dynamic linker that cannot load the
// library complains; it may continue or not.
func try(ctx context.Context, img image, library string) (faketime, error) {
	dir, err := shareDir(library)
	if err != nil {
		return faketime{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args := append([]string{"run", "--rm", "--user=0", "--network=none", bind(dir)}, environment(faketimeEnv(img))...)
	cmd := exec.CommandContext(ctx, "docker", append(args, "--entrypoint="+img.program, img.ref, "--version")...)
	told, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (!exited || ctx.Err() != nil) {
		return faketime{}, fmt.Errorf("faultinject: try %s in %s: %w", library, img.ref, err)
	}
	if err != nil || bytes.Contains(told, []byte("cannot be preloaded")) {
		return faketime{why: fmt.Sprintf("%s does not fit the image %s: %s", library, img.ref, bytes.TrimSpace(told))}, nil
	}
	return faketime{library: library}, nil
}

func faketimeEnv(img image) []string {
	env := redisproc.FaketimeEnv(sharedDir+"/"+libraryName, sharedDir+"/"+clockName)
	return append(env, img.env...)
}

// environment returns the options that set the environment of a container.
func environment(env []string) (options []string) {
	for _, e := range env {
		options = append(options, "--env="+e)
	}
	return options
}

// bind mounts a directory of this machine. The option z shares it on machines that label their files.
func bind(dir string) string { return "--volume=" + dir + ":" + sharedDir + ":ro,z" }

// shareDir makes a directory that a container may read, with the library if there is one.
func shareDir(library string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "quorumlock-faultinject"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil || library == "" {
		return dir, err
	}
	contents, err := os.ReadFile(library)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, libraryName), contents, 0o755); err != nil {
		return "", err
	}
	return dir, redisproc.WriteClock(filepath.Join(dir, clockName), 0)
}
