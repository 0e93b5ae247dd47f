package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const pingTimeout = 10 * time.Second

// ErrNoEngine means that no Docker engine answers that shares its ports and files with this program.
var ErrNoEngine = errors.New("no Docker engine")

// Available returns the reason in one line why containers cannot run here, as an [ErrNoEngine]; nil if they can.
func Available(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	endpoint, err := docker(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err == nil && !isLocal(endpoint) {
		return fmt.Errorf("faultinject: %w on this machine: %s is on another, whose ports and files are not shared", ErrNoEngine, endpoint)
	}
	if err == nil {
		_, err = docker(ctx, "version", "--format", "{{.Server.Version}}")
	}
	if err != nil {
		return fmt.Errorf("faultinject: %w at %q: %s", ErrNoEngine, endpoint, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return nil
}

// isLocal reports whether an engine's endpoint is on this machine.
func isLocal(endpoint string) bool {
	return slices.ContainsFunc([]string{"unix:", "npipe:", "tcp://127.", "tcp://localhost:", "tcp://[::1]:"}, func(local string) bool {
		return strings.HasPrefix(endpoint, local)
	})
}

// emptyArchive is a tar archive without files, as the input of docker import.
var emptyArchive = make([]byte, 1024)

// docker runs a command of the program docker, and returns its output. The end of ctx ends the program. What it has
// asked of the engine may still happen.
func docker(ctx context.Context, args ...string) (string, error) {
	var told bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(emptyArchive), &told, time.Second
	out, err := cmd.Output()
	if ended := ctx.Err(); err != nil && ended != nil {
		err = fmt.Errorf("%w (%w)", err, ended)
	}
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, bytes.TrimSpace(told.Bytes()))
	}
	return string(bytes.TrimSpace(out)), nil
}
