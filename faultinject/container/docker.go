package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"time"
)

const pingTimeout = 10 * time.Second

// ErrNoEngine means that there is no program docker, or no Docker engine that shares its ports and files with this
// program.
var ErrNoEngine = errors.New("no Docker engine")

// Available returns the reason in one line why containers cannot run here, as an [ErrNoEngine]; nil if they can.
func Available(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	endpoint, err := docker(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err != nil {
		return fmt.Errorf("faultinject: %w: %w", ErrNoEngine, err)
	}
	if !isLocal(endpoint) {
		return fmt.Errorf("faultinject: %w on this machine: %s is on another, whose ports and files are not shared", ErrNoEngine, endpoint)
	}
	if _, err := docker(ctx, "version", "--format", "{{.Server.Version}}"); err != nil {
		return fmt.Errorf("faultinject: %w at %s: %w", ErrNoEngine, endpoint, err)
	}
	return nil
}

// isLocal reports whether an engine's endpoint is on this machine.
func isLocal(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "unix", "npipe":
		return true
	}
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}

// docker runs the program docker, and returns its output. An error is in one line, and has the complaint of docker. If
// ctx ended, the error wraps the cause.
func docker(ctx context.Context, args ...string) (string, error) {
	return dockerWith(ctx, nil, args...)
}

// dockerWith is docker with standard input.
func dockerWith(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &complaint
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return strings.TrimSpace(out.String()), nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return "", fmt.Errorf("docker %s: %w: %s", args[0], err, strings.Join(strings.Fields(complaint.String()), " "))
}
